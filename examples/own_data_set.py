"""Your own model and data set: nine clients that each see points of another region, and a test on the whole plane."""

import torch
from torch import nn
from torch.utils.data import Dataset

import flatfed as ff


class Points(Dataset):
    """Points around a place, and whether each lies inside a circle; any Dataset of (input, target) pairs will do."""

    def __init__(self, place: list[float], spread: float, count: int, seed: int) -> None:
        noise = torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))
        self.points = torch.tensor(place) + spread * noise

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.points[index], int(self.points[index].norm() < 1.2)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
clients = [Points([k % 3 - 1.0, k // 3 - 1.0], spread=0.6, count=40 + 5 * k, seed=k) for k in range(9)]
task = ff.Task(model=net, clients=clients, test=Points([0.0, 0.0], spread=1.2, count=500, seed=99))

if __name__ == "__main__":
    run = ff.train(
        task,
        ff.make("fedsam", rho=0.02),
        rounds=40,
        sampling=4,
        lr=0.3,
        batch_size=10,
        evaluate_every=20,
        evaluate_last=1,
    )
    print(f"accuracy {run.summary['accuracy_final']:.3f}")
