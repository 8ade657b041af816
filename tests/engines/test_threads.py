"""The number of threads that torch may use changes no bit."""

import torch
from torch import nn

import flatfed as ff
from flatfed.core.method.server import Replies, Server


class LongSum(ff.Algorithm, id="test-long-sum"):
    """A server update that adds up all parameters: the order of that sum depends on the number of threads."""

    def update(self, server: Server, replies: Replies) -> None:
        server.w = server.w + replies.mean_update() + 1e-3 * replies.mean("w").sum()


def _final_vector(threads: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    clients = [
        (torch.randn(8, 1000, generator=generator), torch.randint(0, 400, (8,), generator=generator)) for _ in range(4)
    ]
    torch.manual_seed(0)
    model = nn.Linear(1000, 400)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        run = ff.train(ff.Task(model, clients), LongSum(), rounds=4, sampling=3, lr=0.1, workers=0)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    return run.vector


def test_one_and_several_threads_give_the_same_bits() -> None:
    assert torch.equal(_final_vector(1), _final_vector(2))
