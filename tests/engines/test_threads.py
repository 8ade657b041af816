"""The number of threads that torch may use changes no bit."""

import torch
from torch import nn

import flatfed as ff


def _final_vector(threads: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    clients = [
        (torch.randn(8, 600, generator=generator), torch.randint(0, 3, (8,), generator=generator)) for _ in range(4)
    ]
    before = torch.get_num_threads()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(600, 200), nn.ReLU(), nn.Linear(200, 3))  # long enough for parallel reductions
    torch.set_num_threads(threads)
    try:
        task = ff.Task(model, clients)
        run = ff.train(task, ff.make("fedgloss", client_opt=ff.SAM()), rounds=3, sampling=3, lr=0.1, workers=0)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    return run.vector


def test_one_and_several_threads_give_the_same_bits() -> None:
    assert torch.equal(_final_vector(1), _final_vector(2))
