"""BiSeNetV2."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import flatfed as ff
from flatfed.core.errors import ConfigError
from flatfed.models import build
from models.samples import loss, parameters


def conv(inputs: int, outputs: int, kernel: int = 3) -> int:
    """Weights of a convolution, and a scale and a shift per output."""
    return inputs * outputs * kernel**2 + 2 * outputs


def each(inputs: int, outputs: int) -> int:
    """The same where every output sees one input."""
    return 9 * outputs + 2 * outputs


def down(inputs: int, outputs: int) -> int:
    """A gather-and-expansion block that halves the image."""
    hidden = 6 * inputs
    main = conv(inputs, inputs) + each(inputs, hidden) + each(hidden, hidden) + conv(hidden, outputs, 1)
    return main + each(inputs, inputs) + conv(inputs, outputs, 1)


def keep(width: int) -> int:
    """A gather-and-expansion block that keeps the shape."""
    return conv(width, width) + each(width, 6 * width) + conv(6 * width, width, 1)


def count(classes: int, channels: int) -> int:
    """The number of parameters by arithmetic, after the paper's table 1."""
    detail = conv(channels, 64) + conv(64, 64) + 3 * conv(64, 64) + conv(64, 128) + 2 * conv(128, 128)
    stem = conv(channels, 16) + conv(16, 8, 1) + conv(8, 16) + conv(32, 16)
    semantic = down(16, 32) + keep(32) + down(32, 64) + keep(64) + down(64, 128) + 3 * keep(128)
    context = 2 * 128 + conv(128, 128, 1) + conv(128, 128)
    aggregation = 2 * (each(128, 128) + 128 * 128) + 3 * conv(128, 128)
    heads = [(128, 1024), (16, 128), (32, 128), (64, 128), (128, 128)]
    return (
        detail + stem + semantic + context + aggregation
        + sum(conv(inputs, hidden) + (hidden + 1) * classes for inputs, hidden in heads)
    )  # fmt: skip


def test_numbers_of_parameters() -> None:
    for classes, channels in ((19, 3), (16, 3), (11, 3), (5, 1)):
        assert parameters(build("bisenetv2", classes, channels)) == count(classes, channels)
    assert count(19, 3) == 3_645_935


@pytest.mark.parametrize("size", [(32, 32), (32, 96), (36, 50), (45, 60)])
def test_scores_have_the_size_of_the_image(size: tuple[int, int]) -> None:
    made, images = build("bisenetv2", 4, 3), torch.zeros(2, 3, *size)
    outputs = made(images)
    assert isinstance(outputs, tuple) and [output.shape for output in outputs] == 5 * [(2, 4, *size)]
    alone = made.eval()(images)
    assert isinstance(alone, Tensor) and alone.shape == (2, 4, *size)


def test_a_street_scene() -> None:
    made = build("bisenetv2", 11, 3).eval()
    with torch.no_grad():
        assert made(torch.zeros(1, 3, 180, 240)).shape == (1, 11, 180, 240)


def test_branches_have_the_sizes_of_the_paper() -> None:
    made, seen = build("bisenetv2", 4, 3), dict[str, torch.Size]()
    for name in ("detail", "stem", "semantic.0", "semantic.1", "semantic.2", "context", "aggregation"):
        keep_shape = lambda module, given, features, name=name: seen.__setitem__(name, features.shape)  # noqa: E731
        made.get_submodule(name).register_forward_hook(keep_shape)
    made(torch.zeros(2, 3, 64, 96))
    assert list(seen.values()) == [
        *((2, 16, 16, 24), (2, 32, 8, 12), (2, 64, 4, 6), (2, 128, 2, 3)),
        *((2, 128, 8, 12), (2, 128, 2, 3), (2, 128, 8, 12)),
    ]


def test_auxiliary_heads_do_not_matter_outside_training() -> None:
    made, images = build("bisenetv2", 4, 3).eval(), torch.randn(2, 3, 32, 32)
    other = copy.deepcopy(made)
    nn.init.zeros_(other.auxiliary[0].scores.weight)
    assert torch.equal(made(images), other(images))
    assert torch.equal(pickle.loads(pickle.dumps(made))(images), made(images))


def test_every_pixel_counts_for_its_own_score() -> None:
    made = build("bisenetv2", 4, 3).eval()
    images = torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    made(images)[0, :, 10, 50].sum().backward()
    gradient = images.grad.abs().sum(dim=(0, 1))
    assert gradient[4:16, 44:56].mean() > 3 * gradient[40:52, 4:16].mean()


def test_a_batch_of_one_image_trains() -> None:
    made = build("bisenetv2", 4, 3)
    pooled, before = made.context.norm, copy.deepcopy(made.context.norm.state_dict())
    images, targets = torch.randn(1, 3, 64, 64), torch.zeros(1, 64, 64, dtype=torch.int64)
    loss(made(images), targets).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in made.parameters())
    assert all(torch.equal(value, before[name]) for name, value in pooled.state_dict().items())
    made(torch.randn(2, 3, 64, 64))
    assert not torch.equal(pooled.running_mean, before["running_mean"])


def test_statistics_may_stay_on_the_clients() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(5, 3, 32, 48, generator=generator)
    targets = torch.randint(0, 4, (5, 32, 48), generator=generator)
    clients = [(images[:3], targets[:3]), (images[3:], targets[3:])]
    task = ff.Task(build("bisenetv2", 4, 3), clients, test=clients[1], loss=loss, local="bn-stats")
    settings = {"rounds": 2, "sampling": 2, "lr": 0.05, "batch_size": 2, "workers": 0}
    run = ff.train(task, ff.make("fedsam", rho=0.01), **settings)  # the first client ends with a batch of one
    row = run.history[-1]
    assert 0 <= row["test_accuracy"] <= 1 and row["train_loss"] > row["test_loss"]
    assert "local_buffers" in run.client_state(0)


def test_dropout_and_initialisation_are_options() -> None:
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    made = build("bisenetv2", 4, 3, options={"dropout": 0.1, "init": "kaiming"})
    assert not torch.equal(made(images)[0], made(images)[0])
    weight = made.head.hidden.conv.weight
    assert float(weight.detach().std()) == pytest.approx((2 / (9 * 1024)) ** 0.5, rel=0.01)


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="bisenetv2 needs in_channels, but the data has only classes"):
        build("bisenetv2", 4, vocabulary=40, length=7)
    with pytest.raises(ConfigError, match=r"bisenetv2: unknown option of the model 'drop'; did you mean 'dropout'"):
        build("bisenetv2", 4, 3, options={"drop": 0.1})
