"""Your own model and data: six clients with tensors of their own, SCAFFOLD with SAM on the clients."""

import torch
from torch import nn

import flatfed as ff

generator = torch.Generator().manual_seed(0)
truth = torch.randn(20, 3, generator=generator)


def client(shift: float, samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one client's data: the same rule, other inputs."""
    inputs = torch.randn(samples, 20, generator=generator) + shift
    return inputs, (inputs @ truth).argmax(dim=1)


task = ff.Task(
    model=nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 3)),
    clients=[client(shift, 40 + 10 * k) for k, shift in enumerate((-1.0, -0.5, 0.0, 0.0, 0.5, 1.0))],
    test=client(0.0, 500),
)

if __name__ == "__main__":
    method = ff.make("scaffold", client_opt=ff.SAM(rho=0.05))
    run = ff.train(task, method, rounds=60, sampling=3, lr=0.1, batch_size=16)
    figures = run.summary
    print(f"accuracy {figures['accuracy_final']:.3f}, {figures['backprops']} backprops, {figures['bytes_up']} bytes up")
