"""The page about models knows each of them, with its options and its number of parameters."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from flatfed.models import build, models
from flatfed.models.catalogue import FACTS, builder_of
from models.samples import parameters

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
ROWS = {line.split("`")[1]: line for line in PAGE.splitlines() if line.startswith("| `") and line.count("|") == 5}
DIGITS, IMAGES, TEXTS = (
    {"in_channels": 1, "image_size": 8},
    {"in_channels": 3, "image_size": 32},
    {"vocabulary": 30_000},
)


@pytest.mark.parametrize("id", models())
def test_every_model_has_a_row_with_its_options(id: str) -> None:
    options = [name for name in inspect.signature(builder_of(id)).parameters if name not in FACTS]
    assert all(f"`{name}`" in ROWS[id] for name in options)
    assert options or ROWS[id].endswith("| – |")


@pytest.mark.parametrize(
    ("id", "classes", "facts"),
    [
        *((id, 10, DIGITS) for id in ("logreg", "mlp", "cnn-small", "cnn-small-bn")),
        *(
            (id, classes, IMAGES)
            for id in (
                "cnn",
                "cnn-fourier",
                "cnn-quarter",
                "cnn-eighth",
                "cnn-patches",
                "resnet18-gn",
                "resnet18-bn",
                "resnet18",
                "wrn-28-4",
            )
            for classes in (10, 100)
        ),
        *(("mobilenetv2-gn", classes, IMAGES) for classes in (1000, 2028)),
        *(("bisenetv2", classes, IMAGES) for classes in (19, 11)),
        ("textcnn", 14, TEXTS | {"length": 128}),
    ],
)
def test_the_number_of_parameters_is_as_the_page_says(id: str, classes: int, facts: dict[str, int]) -> None:
    assert f"{parameters(build(id, classes, **facts)):,}" in ROWS[id]
