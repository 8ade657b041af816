"""Your own model and data set in fifteen lines: nine clients, each with points of another region of the plane."""

import torch
from torch import nn

import flatfed as ff


class Net(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))


def points(x: float, y: float, spread: float, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.tensor([x, y]) + spread * torch.randn(count, 2)
    return inputs, (inputs.norm(dim=1) < 1.2).long()


torch.manual_seed(0)
clients = [points(k % 3 - 1, k // 3 - 1, spread=0.6, count=40 + 5 * k) for k in range(9)]
task = ff.Task(model=Net(), clients=clients, test=points(0, 0, spread=1.2, count=500))
run = ff.train(task, ff.make("fedsam", rho=0.02), rounds=40, sampling=4, lr=0.3, batch_size=10, workers=0)
print(f"accuracy {run.summary['accuracy_final']:.3f}")
