"""Checking data sets: counts, classes, natural clients, values, moments and checksums against what is expected."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flatfed.core.errors import ConfigError
from flatfed.core.task.examples import Examples, TensorExamples
from flatfed.data.acquiring.findings import NOTE, OK, WRONG, Finding, count_finding, ok_if
from flatfed.data.acquiring.moments import compare_moments
from flatfed.data.acquiring.places import probe
from flatfed.data.catalogue.expected import Expected
from flatfed.data.catalogue.official import Fault, Official
from flatfed.data.catalogue.registry import Source, find
from flatfed.data.directory import DataDirectory
from flatfed.data.storage.pool import Pool

Settings = Mapping[str, Any]
Parts = Mapping[str, Examples]


def check(dataset: str, data_dir: str | Path | None = None, options: Settings | None = None) -> list[Finding]:
    """Return what there is to say about a data set; one that is not there at all is an error."""
    source = find(dataset)
    directory = DataDirectory(data_dir)
    given = dict(options or {})
    pool = probe(source, directory, given)
    findings: list[Finding] = []
    if source.official is not None:
        findings += _check_files(source.official, directory)
    # What was found before an error stays: the list takes the findings in one by one.
    try:
        findings += _check_pool(pool or source.open(directory, given), source, given)
    except ConfigError as error:
        findings.append(Finding("reading it", str(error), "", WRONG))
    return findings


# --- files ----------------------------------------------------------------------------------------------------


def _check_files(official: Official, directory: DataDirectory) -> Iterator[Finding]:
    """Compare the files with the official ones; others may hold the same examples in another order."""
    layout = official.layout(directory) or {}
    files = list(filter(layout.get, layout))  # those whose checksum is published
    if not files:
        return
    faults = official.faults(directory, exact=True)
    missing = _with_fault(files, faults, Fault.MISSING)
    others = _with_fault(files, faults, Fault.BROKEN, Fault.OTHER)
    if missing:
        yield Finding("files", f"{', '.join(missing)} missing", f"{len(files)}", WRONG)
    yield _compare_checksums(len(files), len(files) - len(missing) - len(others), others)


def _with_fault(files: Sequence[str], faults: Mapping[str, Fault], *kinds: Fault) -> list[str]:
    return [file for file in files if faults.get(file) in kinds]


def _compare_checksums(count: int, same: int, others: Sequence[str]) -> Finding:
    if not others:
        return Finding("checksums", f"{same} official", f"{count} official", OK)
    names = ", ".join(map(os.path.basename, others))
    return Finding("checksums", f"{same} official, not {names}", f"{count} official", NOTE)


# --- content --------------------------------------------------------------------------------------------------


def _check_pool(pool: Pool, source: Source, options: Settings) -> Iterator[Finding]:
    """Compare the content of a data set with what is expected of it."""
    settings = source.options | dict(options)
    expected = _expected(source, settings)
    parts: dict[str, Examples] = {"train": pool.train, "test": pool.test, **pool.tests}
    yield from _count_examples(parts, expected, settings)
    # Options may choose other labels, so what is expected of the classes holds without them only.
    yield from _check_classes(pool, None if options else expected)
    yield from _check_groups(pool, expected)
    for name, examples in parts.items():
        yield _check_sample(name, examples, pool)
    yield from _check_moments(parts, expected)


def _expected(source: Source, settings: Settings) -> Expected | None:
    """Return what is expected under these settings, where anything is."""
    if source.expected is None or not source.expected.holds_under(settings):
        return None
    return source.expected


def _count_examples(parts: Parts, expected: Expected | None, settings: Settings) -> Iterator[Finding]:
    for name, examples in parts.items():
        yield _compare_count(name, len(examples), expected, settings)
    if expected is not None and expected.total is not None:
        yield count_finding("examples in all", sum(map(len, parts.values())), expected.total)


def _compare_count(part: str, count: int, expected: Expected | None, settings: Settings) -> Finding:
    """Compare the number of examples; where subsets are in use, fewer are noted as such."""
    what = f"{part} examples"
    if expected is None:
        return count_finding(what, count, None)
    if expected.admits_subset(part, count, settings):
        whole = f"{expected.examples(part):,}"
        return Finding(what, f"a subset: {count:,} of {whole}", whole, NOTE)
    return count_finding(what, count, expected.taken(part, settings))


def _check_classes(pool: Pool, expected: Expected | None) -> Iterator[Finding]:
    if _has_class_per_pixel(pool):
        # The labels, one per example, are there for partitions only.
        yield count_finding("classes", pool.classes, None if expected is None else expected.classes)
        return
    counts = torch.bincount(pool.labels, minlength=pool.classes)
    yield _compare_classes(int((counts > 0).sum()), pool.classes, expected)
    yield _compare_class_sizes(counts, expected)


def _has_class_per_pixel(pool: Pool) -> bool:
    _, targets = pool.test.batch(torch.tensor([0]))
    return isinstance(targets, torch.Tensor) and targets.ndim > 1


def _compare_classes(present: int, classes: int, expected: Expected | None) -> Finding:
    if expected is not None:
        return count_finding("classes", present, expected.classes)
    # Without a description nothing says that every class must occur.
    state = OK if present == classes else NOTE
    return Finding("classes", f"{present:,}", f"{classes:,}", state)


def _compare_class_sizes(counts: Tensor, expected: Expected | None) -> Finding:
    what = "train examples per class"
    if expected is None or not expected.per_class:
        return Finding(what, _spread(counts))
    sizes = torch.tensor(expected.per_class)
    return Finding(what, _spread(counts), _spread(sizes), ok_if(counts.tolist() == sizes.tolist()))


def _check_groups(pool: Pool, expected: Expected | None) -> Iterator[Finding]:
    counts = expected.groups if expected is not None else {}
    for name, numbers in pool.groups.items():
        sizes = torch.unique(numbers, return_counts=True)[1]
        yield count_finding(f"groups by {name}", len(sizes), counts.get(name))
        yield Finding(f"train examples per group by {name}", _spread(sizes))
    yield from _missing_groups(pool, counts)


def _missing_groups(pool: Pool, counts: Mapping[str, int]) -> Iterator[Finding]:
    for name in counts:
        if name not in pool.groups:
            yield Finding(f"groups by {name}", "none", f"{counts[name]:,}", WRONG)


def _spread(counts: Tensor) -> str:
    low, high = int(counts.min()), int(counts.max())
    if low == high:
        return f"{low:,}"
    return f"{low:,} to {high:,}, median {int(counts.median()):,}"


def _check_sample(name: str, examples: Examples, pool: Pool) -> Finding:
    """Read and prepare the first, the middle and the last example, and tell what they are."""
    count = len(examples)
    # Three only: decoding every file of a large set takes long; `data.verify` does it where asked for.
    inputs, _ = examples.batch(torch.tensor(sorted({0, count // 2, count - 1})))
    shape = "x".join(map(str, inputs.shape[1:]))
    kind = str(inputs.dtype).removeprefix("torch.")
    text = f"{shape} {kind}{_range(examples)}"
    prepared = inputs if pool.prepare is None else pool.prepare(inputs)
    if _is_finite(prepared):
        return Finding(f"{name} inputs", text)
    return Finding(f"{name} inputs", text, "finite", WRONG)


def _is_finite(values: Tensor) -> bool:
    return not values.is_floating_point() or bool(torch.isfinite(values).all())


def _range(examples: Examples) -> str:
    """Return the least and the greatest value of examples that lie in memory."""
    # Others would all have to be decoded for it.
    if not isinstance(examples, TensorExamples) or not examples.inputs.numel():
        return ""
    low, high = torch.aminmax(examples.inputs)
    return f", {low.item():g} to {high.item():g}"


def _check_moments(parts: Parts, expected: Expected | None) -> Iterator[Finding]:
    if expected is None:
        return
    if expected.train_moments is not None:
        yield from compare_moments("train", parts["train"], expected.train_moments)
    if expected.test_moments is not None:
        yield from compare_moments("test", parts["test"], expected.test_moments)
