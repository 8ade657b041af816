"""Points of a landscape are kept as they come, and taken over where they fit."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import flatfed as ff
from flatfed.core.errors import CheckpointError
from flatfed.flatness.sums import Sample
from flatness.federations import (
    ROUNDS,
    checkpoint,
    cohort,
    everyone,
    loss,
    trained,
)
from flatness.landscapes import (
    Counted,
    grids_of,
    look,
    same,
)

# --- points are kept ----------------------------------------------------------------------------------------


KINDS = {
    "surface": (2, 50),
    "line": (2, 14),
    "plane": (3, 50),
    "along": (1, 5 + 1 + 4 * 10),
    "client": (1, 50),
    "clients": (1, 50),
    "client-plane": (1, 50),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_look_evaluates_nothing(kind: str, runs: Callable[..., list[Path]], counted: Counted) -> None:
    count, points = KINDS[kind]
    paths, reported = runs("norms", count), list[tuple[str, int, int]]()
    evaluated, first = counted.of(lambda: look(paths, kind))
    assert evaluated == points
    evaluated, second = counted.of(lambda: look(paths, kind, on_point=lambda *step: reported.append(step)))
    assert evaluated == 0
    assert same(first, second)
    assert all(done == total for _, done, total in reported)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_look_goes_on_where_it_was(kind: str, runs: Callable[..., list[Path]], counted: Counted) -> None:
    count, points = KINDS[kind]
    whole = look(runs("norms", count, "whole"), kind)
    paths, heard = runs("norms", count, "stopped"), list[int]()

    def stop(name: str, done: int, total: int) -> None:
        heard.append(done)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        look(paths, kind, on_point=stop)
    kept = [line for file in paths[0].glob("flatness/*.jsonl") for line in file.read_text().splitlines()[1:]]
    assert len(kept) == 3
    evaluated, actual = counted.of(lambda: look(paths, kind))
    assert evaluated == points - 3
    assert same(actual, whole)


@pytest.mark.parametrize("torn", ["half a line", "no line end", "nothing but the start of the key", "empty"])
def test_a_file_that_was_torn_off_is_used_as_far_as_it_goes(
    torn: str, runs: Callable[..., list[Path]], counted: Counted
) -> None:
    paths = runs("plain", 1)
    whole = look(paths, points=3)
    [file] = paths[0].glob("flatness/*.jsonl")
    text = file.read_text()
    cut = {"half a line": len(text) - 9, "no line end": len(text) - 1, "nothing but the start of the key": 20}
    file.write_text(text[: cut.get(torn, 0)])
    evaluated, again = counted.of(lambda: look(paths, points=3))
    assert evaluated == {"half a line": 1, "no line end": 0}.get(torn, 9)
    assert same(again, whole)
    assert counted.of(lambda: look(paths, points=3))[0] == 0


@pytest.mark.parametrize(("coarse", "fine"), [(3, 5), (5, 9), (3, 7), (7, 13), (7, 19)])
def test_a_finer_surface_takes_over_what_fits(
    coarse: int, fine: int, runs: Callable[..., list[Path]], counted: Counted
) -> None:
    """Where the finer grid holds every point of the coarser one."""
    assert (fine - 1) % (coarse - 1) == 0
    paths = runs("plain", 1)
    look(paths, points=coarse)
    evaluated, actual = counted.of(lambda: look(paths, points=fine))
    assert evaluated == fine**2 - coarse**2
    assert same(actual, look(runs("plain", 1, "fresh"), points=fine))


@pytest.mark.parametrize(("coarse", "fine"), [(3, 5), (3, 7), (5, 13), (7, 19)])
def test_a_finer_line_takes_over_what_fits(
    coarse: int, fine: int, runs: Callable[..., list[Path]], counted: Counted
) -> None:
    paths = runs("plain", 2)
    before, _ = counted.of(lambda: look(paths, "line", points=coarse))
    after, _ = counted.of(lambda: look(paths, "line", points=fine))
    fresh, _ = counted.of(lambda: look(runs("plain", 2, "fresh"), "line", points=fine))
    assert after == fresh - before


CHANGES: dict[str, dict[str, Any]] = {
    "another seed": {"seed": 1},
    "a part of the examples": {"samples": 20},
    "the last global model": {"weights": "global"},
    "another client": {"kind": "client", "client": 3, "round": "next"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_a_landscape_is_not_mixed_up(
    change: str, runs: Callable[..., list[Path]], counted: Counted
) -> None:
    other = {"kind": "client", "client": 1, "round": "next"}
    paths, plain = runs("plain", 1), other if change == "another client" else {}
    look(paths, points=3, **plain)
    evaluated, actual = counted.of(lambda: look(paths, points=3, **CHANGES[change]))
    assert evaluated == 9 * len(actual.grids)
    assert same(actual, look(runs("plain", 1, "fresh"), points=3, **CHANGES[change]))


def test_other_rounds_and_other_partners_are_not_mixed_up(runs: Callable[..., list[Path]], counted: Counted) -> None:
    first, second, third = runs("plain", 3)
    earlier, last = checkpoint(first, ROUNDS - 1), checkpoint(first, ROUNDS)
    at_end = look([first], points=3).grids[0]
    evaluated, before = counted.of(lambda: look([earlier], points=3))
    assert evaluated == 9
    assert before.grids[0].losses[1, 1] == pytest.approx(ff.laboratory(earlier).surface.loss(), rel=1e-12)
    assert not np.array_equal(before.grids[0].losses, at_end.losses)
    assert counted.of(lambda: look([last], points=3))[0] == 0
    for pair in ([first, second], [first, third], [second, first], [earlier, last]):
        assert counted.of(lambda pair=pair: look(pair, "line", points=3))[0] == 8


def test_more_rounds_are_looked_at_anew(runs: Callable[..., list[Path]], counted: Counted) -> None:
    [path] = runs("plain", 1)
    look([path], points=3)
    ff.resume(path, rounds=ROUNDS + 2, workers=0)
    evaluated, actual = counted.of(lambda: look([path], points=3))
    assert evaluated == 9
    assert actual.grids[0].losses[1, 1] == pytest.approx(loss(ff.load_run(path).vector, *everyone()))


def test_the_round_behind_the_last_is_the_one_that_a_longer_run_plays(tmp_path: Path) -> None:
    path = tmp_path / "run"
    trained("fedavg", path, rounds=2, batch_size=2)
    at_end = look([path], "client", points=3, client=1, round="next")
    ff.resume(path, rounds=3, workers=0)
    fresh = Path(shutil.copytree(path, tmp_path / "fresh"))
    shutil.rmtree(fresh / "flatness")
    assert same(look([checkpoint(fresh, 2)], "client", points=3, client=1, round="next"), at_end)
    assert same(look([checkpoint(path, 2)], "client", points=3, client=1, round="next"), at_end)
    with pytest.raises(CheckpointError, match="the local models of round 2 come from a checkpoint before it"):
        look([checkpoint(path, 2)], "client", points=3)


def test_who_took_part_last_and_who_comes_next_stays_the_same_when_a_run_is_extended(tmp_path: Path) -> None:
    path = tmp_path / "run"
    trained("fedavg", path, rounds=2)

    def asked(source: Path, round: str) -> list[int]:
        with ff.laboratory(source) as lab:
            actual = lab.measure(f"client_divergence(round={round})")["client_divergence"]
        return sorted(actual.clients["client_divergence"])

    before = asked(path, "last"), asked(path, "next")
    ff.resume(path, rounds=3, workers=0)
    played = ff.load_run(path)
    assert before == (cohort(played, 1), cohort(played, 2))
    assert cohort(played, 1) != cohort(played, 2), "or this test says nothing"
    assert (asked(path, "last"), asked(checkpoint(path, 2), "next")) == (cohort(played, 2), cohort(played, 2))


@pytest.mark.parametrize("kind", ["surface", "plane", "client"])
def test_the_same_bits_with_workers(kind: str, runs: Callable[..., list[Path]]) -> None:
    count, _ = KINDS[kind]
    alone = look(runs("norms", count, "alone"), kind, points=3, workers=0)
    assert same(alone, look(runs("norms", count, "together"), kind, points=3, workers=2))


def test_a_part_of_the_examples_is_the_fixed_one(runs: Callable[..., list[Path]]) -> None:
    [path] = runs("plain", 1)
    [grid] = look([path], points=3, samples=10, seed=4).grids
    part = Sample("train", 10, 4).examples(ff.load_run(path)._federation.task)
    assert grid.losses[1, 1] == pytest.approx(loss(ff.load_run(path).vector, *part.batch(torch.arange(10))))
    assert "10 of 34 examples (seed 4)" in grid.note


def test_a_loss_that_overflows_is_infinite_and_no_json_number(tmp_path: Path) -> None:
    trained("fedavg", tmp_path / "run", dtype=torch.float32)
    for _ in range(2):  # evaluated, and read back
        [grid] = look([tmp_path / "run"], points=3, extent=1e38).grids
        assert math.isinf(grid.losses[0, 0]) and math.isfinite(grid.losses[1, 1])
        assert json.loads(json.dumps(grids_of(grid), allow_nan=False))["losses"][0][0] is None
