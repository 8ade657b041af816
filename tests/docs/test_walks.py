"""A reader who follows a command opens few files: `run`, `resume` and `landscape`, counted by `walks.py`."""

from __future__ import annotations

import os

import pytest

from docs.walks import Files, walk_all

pytestmark = pytest.mark.skipif("FLATFED_BATTERY" not in os.environ, reason="takes long: make battery")

MOST = {"run": 84, "resume": 76, "landscape": 69}
"""Files of which a function is called; more than this need a reason, or a neighbour to join.

The options of a run are read and resolved below the command line, in the rooms of spelling, tasks and comparing: other
descriptions of runs enter there.
"""


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    return walk_all(tmp_path_factory.mktemp("walks"))


@pytest.mark.parametrize("name", MOST)
def test_a_walk_leads_through_few_files(walks: dict[str, Files], name: str) -> None:
    assert len(walks[name]) <= MOST[name], "\n".join(walks[name])


def test_a_walk_is_counted_whole(walks: dict[str, Files]) -> None:
    assert "Federation.rounds" in walks["run"]["core/round/federation.py"]
    assert "continue_play" in walks["resume"]["experiments/running/play.py"]
    assert "landscape" in walks["landscape"]["experiments/measuring/landscapes.py"]
