"""A model is one vector, whatever the module."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import flatfed as ff
from core.bench import CLASSES, INPUTS, flat, net, normed, pairs, seeded, task, train
from flatfed.core.model.layout import Layout, Local
from flatfed.core.model.oracle import Oracle


class Language(nn.Module):
    """An embedding tied to the output layer around an LSTM."""

    def __init__(self, words: int = 7, width: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.mix = nn.LSTM(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, words)
        self.out.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.mix(self.embed(x))[0][:, -1]))


class Masked(nn.Module):
    """A linear layer with buffers of every sort."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(INPUTS, CLASSES)
        self.register_buffer("mask", torch.tensor([[0.0, -torch.inf, 0.0, 0.0]]))
        self.register_buffer("scratch", torch.ones(6), persistent=False)
        self.register_buffer("scale", torch.full((2,), 0.5))
        self.register_buffer("big", torch.tensor([2**40 + 1]))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


LAYERS = {
    "linear": lambda: nn.Linear(3, 2),
    "no-bias": lambda: nn.Linear(2, 5, bias=False),
    "conv": lambda: nn.Conv2d(3, 4, (2, 3)),
    "depthwise": lambda: nn.Conv2d(4, 4, 3, groups=4),
    "transposed": lambda: nn.ConvTranspose2d(2, 3, 2),
    "conv1d": lambda: nn.Conv1d(2, 3, 3),
    "embedding": lambda: nn.Embedding(5, 3),
    "layernorm": lambda: nn.LayerNorm((2, 3)),
    "batchnorm": lambda: nn.BatchNorm2d(4),
    "lstm": lambda: nn.LSTM(2, 3, bidirectional=True),
    "language": Language,
}
modules = st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=5).map(
    lambda names: seeded(lambda: nn.Sequential(*(LAYERS[name]() for name in names)))
)


@settings(max_examples=40, deadline=None)
@given(model=modules, double=st.booleans(), local=st.sampled_from([Local(), Local(names=("0.*",))]))
def test_the_public_order_is_that_of_parameters_and_translates_back_exactly(model, double, local):
    model = model.to(torch.float64 if double else torch.float32)
    if len(model) == 1 or not list(model[1:].parameters()):
        local = Local()
    layout = Layout(model, local)
    private = layout.read(model)
    assert private.dtype == next(model.parameters()).dtype
    assert torch.equal(layout.to_public(private), flat(model))
    assert torch.equal(layout.from_public(flat(model)), private)
    other = torch.arange(len(private), dtype=private.dtype)
    assert torch.equal(layout.from_public(layout.to_public(other)), other)


@settings(max_examples=25, deadline=None)
@given(model=modules)
def test_binding_keeps_every_value_and_makes_parameters_views_of_one_vector(model):
    before, names = flat(model).clone(), [name for name, _ in model.named_parameters()]
    vector = Layout(model).bind(model)
    assert torch.equal(flat(model), before)
    assert [name for name, _ in model.named_parameters()] == names
    home = vector.untyped_storage().data_ptr()
    assert all(p.untyped_storage().data_ptr() == home for p in model.parameters())
    vector.fill_(2.0)
    assert all(bool((p == 2.0).all()) for p in model.parameters())


def test_gradients_are_views_of_one_vector_too():
    oracle = Oracle(task(), torch.float64)
    got, _ = oracle.gradient(*pairs()[0])
    home = got.untyped_storage().data_ptr()
    assert all(p.grad.untyped_storage().data_ptr() == home for p in oracle.model.parameters())
    assert torch.equal(oracle.layout.to_public(got), torch.cat([p.grad.flatten() for p in oracle.model.parameters()]))


def test_tied_parameters_appear_once_and_stay_tied():
    model = seeded(Language)
    layout = Layout(model)
    vector = layout.bind(model)
    assert len(vector) == sum(p.numel() for p in model.parameters())
    assert model.out.weight is model.embed.weight
    vector.mul_(3.0)
    assert torch.equal(model.out.weight, model.embed.weight)
    clients = [(torch.arange(12).view(3, 4) % 7, torch.tensor([1, 2, 3]))]
    trained = train(ff.Task(seeded(Language), clients), dtype="float32").model()
    assert trained.out.weight is trained.embed.weight
    assert not torch.equal(trained.out.weight, seeded(Language).out.weight)


def test_frozen_parameters_are_absent_and_never_move():
    model = net()
    model[0].weight.requires_grad_(False)
    frozen, run = model[0].weight.clone(), train(task(model), weight_decay=0.1)
    assert len(run.vector) == len(flat(net())) - frozen.numel()
    trained = run.model()
    assert torch.equal(trained[0].weight, frozen)
    assert not torch.equal(trained[0].bias, net()[0].bias)


def test_convolution_weights_are_stored_channels_last():
    model = seeded(lambda: nn.Conv2d(3, 4, 2))
    layout, weight = Layout(model), model.weight.detach().clone()
    vector = layout.bind(model)
    assert model.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(vector[: weight.numel()], weight.permute(0, 2, 3, 1).flatten())
    fresh = seeded(lambda: nn.Conv2d(3, 4, 2), 1)
    layout.write(vector, fresh)
    assert torch.equal(fresh.weight, weight)


def assert_statistics_are_local(layout: Layout) -> None:
    assert (layout.shared_buffers, layout.shared_counters) == (0, 0)
    assert [piece.name for piece in layout.buffers] == ["1.running_mean", "1.running_var"]
    assert [piece.name for piece in layout.counters] == ["1.num_batches_tracked"]


@pytest.mark.parametrize("local", [Local(types=(nn.BatchNorm1d,)), Local(names=("1.*",))], ids=["type", "name"])
def test_local_layers_lie_last(local):
    layout, model = Layout(normed(), local), normed()
    assert (layout.size, layout.shared) == (len(flat(model)), len(flat(model)) - 10)
    assert [piece.name for piece in layout.parameters if piece.local] == ["1.weight", "1.bias"]
    vector = layout.read(model)
    assert torch.equal(vector[layout.shared :], torch.cat([model[1].weight, model[1].bias]))
    shared = [p for n, p in model.named_parameters() if not n.startswith("1.")]
    assert torch.equal(layout.to_public(vector[: layout.shared]), nn.utils.parameters_to_vector(shared))
    assert_statistics_are_local(layout)


def test_buffers_only_keeps_the_parameters_shared():
    layout = Layout(normed(), Local(types=(nn.BatchNorm1d,), buffers_only=True))
    assert layout.shared == layout.size
    assert_statistics_are_local(layout)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batchnorm_buffers_make_the_trip_counters_included(dtype):
    model = normed().to(dtype)
    x = torch.arange(30, dtype=dtype).view(6, 5).sin()
    model[1](x)
    layout, before = Layout(model), copy.deepcopy(dict(model.named_buffers()))
    buffers, counters = layout.read_buffers(model, dtype)
    model[1](x + 1)
    layout.write_buffers(buffers, counters, model)
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    assert model[1].num_batches_tracked.dtype == torch.int64
    assert (buffers.dtype, len(buffers)) == (dtype, 10)
    assert counters.tolist() == [1]


def test_constants_of_infinity_and_transient_buffers_do_not_move():
    layout = Layout(Masked())
    moving = {piece.name for piece in (*layout.buffers, *layout.counters)}
    assert "scale" in moving
    assert moving.isdisjoint({"mask", "scratch"})
    run = train(task(seeded(Masked)))
    assert run.status == "finished"
    assert torch.equal(run.model().mask, Masked().mask.double())


class Restless(nn.Module):
    """Counts its passes in a buffer that is not part of the state, and lets the count matter."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(INPUTS, CLASSES)
        self.register_buffer("passes", torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.passes += 1
        return self.layer(x) / self.passes


def test_transient_buffers_do_not_leak_from_one_client_to_the_next():
    runs = [train(task(seeded(Restless)), workers=workers) for workers in (0, 2)]
    assert torch.equal(runs[0].vector, runs[1].vector)


class Caching(nn.Module):
    """Makes a transient buffer when it first needs one, as position encodings do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(INPUTS, CLASSES)
        self.register_buffer("positions", None, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.positions is None or len(self.positions) != len(x):
            self.positions = torch.arange(len(x), dtype=x.dtype).view(-1, 1)
        return self.layer(x) + self.positions


@pytest.mark.parametrize("method", ["fedavg", "fedsam", "fedgmt"])
def test_buffers_may_be_made_on_the_way(method):
    runs = [train(task(seeded(Caching)), ff.make(method), workers=workers) for workers in (0, 2)]
    assert runs[0].status == "finished"
    assert torch.equal(runs[0].vector, runs[1].vector)


@pytest.mark.parametrize("method", ["fedavg", "fedsam"])
def test_whole_number_buffers_survive_training_whatever_their_size(method):
    run = train(task(seeded(Masked).float(), pairs(dtype=torch.float32)), ff.make(method), dtype="float32")
    assert run.model().big.tolist() == [2**40 + 1]


def test_weight_mask_marks_tensors_named_weight():
    layout = Layout(normed())
    expected = torch.cat([torch.full((p.numel(),), "weight" in n) for n, p in normed().named_parameters()])
    assert torch.equal(layout.to_public(layout.weight_mask()), expected)


def test_unusable_models_are_refused_in_one_sentence():
    frozen = net().requires_grad_(False)
    with pytest.raises(ff.ConfigError, match="no trainable parameter"):
        Layout(frozen)
    with pytest.raises(ff.ConfigError, match="nothing is left to share"):
        Layout(net(), Local(names=("*",)))
    complex_model = nn.Linear(2, 2, dtype=torch.complex64)
    with pytest.raises(ff.ConfigError, match=r"'weight'.*complex64"):
        Layout(complex_model)
    with pytest.raises(ff.ConfigError, match="43 trainable parameters, the vector 4"):
        Layout(net()).from_public(torch.zeros(4))
