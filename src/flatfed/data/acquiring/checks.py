"""Checking data sets: counts, classes, natural clients, values, moments and checksums against what is known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import Examples, TensorExamples
from flatfed.data.acquiring.directory import DataDirectory
from flatfed.data.acquiring.known import KNOWN, Known, Moments
from flatfed.data.acquiring.official import OFFICIAL, Official, located
from flatfed.data.acquiring.places import probe
from flatfed.data.acquiring.wholeness import content_md5
from flatfed.data.catalogue import find, load
from flatfed.data.storage.pool import Pool

OK, NOTE, WRONG = "ok", "note", "wrong"
CHUNK = 1000
WHITE = 255


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what was found, what was expected, and whether the two fit."""

    what: str
    found: str
    expected: str = ""
    state: str = OK


def check(dataset: str, data_dir: str | Path | None = None, options: Mapping[str, Any] | None = None) -> list[Finding]:
    """Return what there is to say about a data set; one that is not there at all is an error."""
    directory, options = DataDirectory(data_dir), dict(options or {})
    pool = probe(find(dataset), directory, options)
    findings = list(_checksums(OFFICIAL.get(dataset), directory))
    try:
        pool = pool or load(dataset, data_dir, **options)
        # Options may choose other labels, so what is known of the classes holds without them only.
        settings = find(dataset).options | options
        findings += _compare(pool, _known(dataset, settings), settings, strict=not options)
    except ConfigError as error:
        findings.append(Finding("reading it", str(error), "", WRONG))
    return findings


def _checksums(official: Official | None, directory: DataDirectory) -> Iterator[Finding]:
    """Compare the files with the official ones; others may hold the same examples in another order."""
    layout = official.layout(directory) if official is not None else None
    known = {file: md5 for file, md5 in (layout or {}).items() if md5}
    if not known:
        return
    found = {file: path for file in known if (path := located(directory, file)) is not None}
    if missing := [file for file in known if file not in found]:
        yield Finding("files", f"{', '.join(missing)} missing", f"{len(known)}", WRONG)
    others = [Path(file).name for file, path in found.items() if content_md5(path) != known[file]]
    text = f"{len(found) - len(others)} official" + (f", not {', '.join(others)}" if others else "")
    yield Finding("checksums", text, f"{len(known)} official", NOTE if others else OK)


def _known(dataset: str, settings: Mapping[str, Any]) -> Known | None:
    known = KNOWN.get(dataset)
    return None if known is not None and any(settings.get(name) for name in known.chosen_by) else known


def _compare(pool: Pool, known: Known | None, settings: Mapping[str, Any], strict: bool) -> Iterator[Finding]:
    parts = {"train": pool.train, "test": pool.test, **pool.tests}
    for name, examples in parts.items():
        yield _examples(name, len(examples), known, settings)
    if known is not None and known.total is not None:
        yield _number("examples in all", sum(map(len, parts.values())), known.total)
    yield from _classes(pool, known if strict else None)
    yield from _groups(pool, known)
    for name, examples in parts.items():
        yield _sample(name, examples, pool)
    for name, moments in {"train": known.train_moments, "test": known.test_moments}.items() if known else ():
        if moments is not None:
            yield from _moments(name, parts[name], moments)


def _examples(part: str, found: int, known: Known | None, settings: Mapping[str, Any]) -> Finding:
    """Compare the number of examples; where subsets are in use, fewer are noted as such."""
    expected = known.taken(part, settings) if known is not None else None
    if known is not None and known.subsets and expected is not None and found < expected:
        whole = f"{known.examples(part):,}"
        return Finding(f"{part} examples", f"a subset: {found:,} of {whole}", whole, NOTE)
    return _number(f"{part} examples", found, expected)


def _number(what: str, found: int, expected: int | None) -> Finding:
    shown = "" if expected is None else f"{expected:,}"
    return Finding(what, f"{found:,}", shown, OK if expected in (None, found) else WRONG)


def _classes(pool: Pool, known: Known | None) -> Iterator[Finding]:
    _, targets = pool.test.batch(torch.tensor([0]))
    if targets.ndim > 1:  # a class for each pixel: labels, one for each example, are for partitions only
        yield _number("classes", pool.classes, known.classes if known is not None else None)
        return
    counts = torch.bincount(pool.labels, minlength=pool.classes)
    present = int((counts > 0).sum())
    expected = known.classes if known is not None else pool.classes
    state = OK if present == expected else NOTE if known is None else WRONG
    yield Finding("classes", f"{present:,}", f"{expected:,}", state)
    found, want = _spread(counts), ""
    if known is not None and known.per_class:
        want = _spread(torch.tensor(known.per_class))
        state = OK if counts.tolist() == list(known.per_class) else WRONG
    yield Finding("train examples a class", found, want, state if want else OK)


def _groups(pool: Pool, known: Known | None) -> Iterator[Finding]:
    expected = known.groups if known is not None else {}
    for name, numbers in pool.groups.items():
        sizes = torch.unique(numbers, return_counts=True)[1]
        yield _number(f"groups by {name}", len(sizes), expected.get(name))
        yield Finding(f"train examples a group by {name}", _spread(sizes))
    for name in expected:
        if name not in pool.groups:
            yield Finding(f"groups by {name}", "none", f"{expected[name]:,}", WRONG)


def _spread(counts: Tensor) -> str:
    low, high = int(counts.min()), int(counts.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, median {int(counts.median()):,}"


def _sample(name: str, examples: Examples, pool: Pool) -> Finding:
    """Read and prepare the first, the middle and the last example, and tell what they are."""
    count = len(examples)
    inputs, _ = examples.batch(torch.tensor(sorted({0, count // 2, count - 1})))
    prepared = pool.prepare(inputs) if pool.prepare is not None else inputs
    finite = not prepared.is_floating_point() or bool(torch.isfinite(prepared).all())
    shape, kind = "x".join(map(str, inputs.shape[1:])), str(inputs.dtype).removeprefix("torch.")
    values = ""
    if isinstance(examples, TensorExamples) and examples.inputs.numel():
        low, high = torch.aminmax(examples.inputs)
        values = f", {low.item():g} to {high.item():g}"
    return Finding(f"{name} inputs", f"{shape} {kind}{values}", "" if finite else "finite", OK if finite else WRONG)


def _moments(name: str, examples: Examples, known: Moments) -> Iterator[Finding]:
    if not isinstance(examples, TensorExamples) or examples.inputs.dtype != torch.uint8:
        yield Finding(f"{name} mean", "no images of bytes", _shown(known.mean), WRONG)
        return
    mean, std = moments(examples.inputs)
    for what, found, expected in (("mean", mean, known.mean), ("std", std, known.std)):
        off = max((abs(a - b) for a, b in zip(found, expected, strict=False)), default=0.0)
        wrong = len(found) != len(expected) or off > known.tolerance
        text = _shown(found) + (f" (off by {off:.1e})" if wrong else "")
        yield Finding(f"{name} {what}", text, _shown(expected), WRONG if wrong else OK)


def moments(images: Tensor) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation per channel, white being 1; from whole numbers, so that nothing is lost."""
    totals = squares = torch.zeros(images.shape[1], dtype=torch.int64)
    for chunk in torch.split(images, CHUNK):
        wide = chunk.to(torch.int64)
        totals, squares = totals + wide.sum((0, 2, 3)), squares + (wide * wide).sum((0, 2, 3))
    count = images.numel() // images.shape[1]
    pairs = zip(totals.tolist(), squares.tolist(), strict=True)
    spreads = [math.sqrt(square * count - total * total) / (count * WHITE) for total, square in pairs]
    return [total / (count * WHITE) for total in totals.tolist()], spreads


def _shown(values: tuple[float, ...] | list[float]) -> str:
    return " ".join(f"{value:.8f}" for value in values)
