"""TextCNN."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.models import build
from models.samples import parameters


def texts(count: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(1, 40, (count, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("classes", "vocabulary"), [(14, 30_000), (4, 40)])
def test_numbers_of_parameters(classes: int, vocabulary: int) -> None:
    made = build("textcnn", classes, vocabulary=vocabulary, length=128)
    filters = sum(100 * (100 * size + 1) for size in (3, 4, 5))
    assert parameters(made) == 100 * vocabulary + filters + 301 * classes
    if vocabulary == 30_000:
        assert parameters(made) == 3_124_514


def test_scores_are_those_by_hand() -> None:
    made, tokens = build("textcnn", 3, vocabulary=40, length=7).double(), texts(2, 7)
    tokens[1, 4:] = 0
    w, scores = made.state_dict(), made(tokens)
    for text, given in zip(tokens, scores, strict=True):
        x, highest = w["embedding.weight"][text], []
        for number, size in enumerate((3, 4, 5)):
            kernels = w[f"filters.{number}.weight"].squeeze(2)  # filters x embedding x size
            windows = torch.stack([x[at : at + size].T for at in range(7 - size + 1)])
            answers = torch.einsum("wes,fes->wf", windows, kernels) + w[f"filters.{number}.bias"]
            highest.append(answers.relu().amax(dim=0))
        torch.testing.assert_close(given, F.linear(torch.cat(highest), w["head.weight"], w["head.bias"]))


def test_padding_is_zero_and_stays_so() -> None:
    made = build("textcnn", 3, vocabulary=40, length=7)
    tokens = texts(4, 7)
    tokens[:, 5:] = 0
    assert not made.embedding.weight[0].any()
    F.cross_entropy(made(tokens), torch.tensor([0, 1, 2, 0])).backward()
    gradient = made.embedding.weight.grad
    assert gradient is not None and not gradient[0].any() and gradient[int(tokens[0, 0])].any()


def test_an_empty_text_has_scores() -> None:
    made = build("textcnn", 3, vocabulary=40, length=7)
    assert bool(made(torch.zeros(1, 7, dtype=torch.int64)).isfinite().all())


def test_where_in_the_text_a_phrase_stands_does_not_matter() -> None:
    made, tokens = build("textcnn", 3, vocabulary=40, length=30), torch.zeros(2, 30, dtype=torch.int64)
    tokens[0, 5:11] = tokens[1, 15:21] = texts(1, 6)[0]
    torch.testing.assert_close(made(tokens)[0], made(tokens)[1])


def test_dropout_is_an_option() -> None:
    tokens = texts(2, 7)
    made = build("textcnn", 3, vocabulary=40, length=7, options={"dropout": 0.5})
    assert not torch.equal(made(tokens), made(tokens))
    assert torch.equal(made.eval()(tokens), build("textcnn", 3, vocabulary=40, length=7)(tokens))


def test_refusals() -> None:
    with pytest.raises(ConfigError, match="textcnn needs texts of at least 5 tokens, not 4"):
        build("textcnn", 3, vocabulary=40, length=4)
    with pytest.raises(ConfigError, match="textcnn needs vocabulary, length, but the data has only classes"):
        build("textcnn", 10, 3, 32)
    with pytest.raises(ConfigError, match=r"textcnn: dropout must be at least 0 and less than 1, not 1.5"):
        build("textcnn", 3, vocabulary=40, length=7, options={"dropout": 1.5})
    with pytest.raises(ConfigError, match="resnet18 needs in_channels, but the data has only classes"):
        build("resnet18", 3, vocabulary=40, length=7)
