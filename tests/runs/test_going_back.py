"""Going on from an earlier checkpoint, while later ones are there that are damaged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flatfed.runs.checkpoints import Checkpoints
from flatfed.runs.states.free_places import Places
from runs.test_client_states import RUN, SIZE, Session, values

ALL = tuple(range(4))


def after(round: int, *clients: int) -> dict[int, float]:
    return {client: 100.0 * round + client for client in clients}


def read(session: Session, round: int) -> dict[int, float]:
    return values(Checkpoints(session.root, RUN).load(round))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Round 1 is kept; the last two are those of 6 and 7, with states behind those of 1."""
    return Session(tmp_path / "checkpoints", kept=(1,)).save(1, *ALL).save(6, *ALL).save(7, *ALL)


def go_back(session: Session, cut: int) -> Session:
    """Cut the state file after some places, and go on from what is left."""
    os.truncate(session.file("states"), cut * SIZE)
    again = Session(session.root, kept=(1,))
    again.store.adopt(again.checkpoints.load_newest().states["clients"])
    return again


def test_what_is_saved_stays_though_later_ones_are_damaged(session: Session) -> None:
    again = go_back(session, cut=4).save(2, 0).save(3, 1)
    assert again.checkpoints.rounds() == [7, 6, 3, 2, 1]
    assert Checkpoints(session.root, RUN).load_newest().round == 3
    assert read(again, 2) == after(1, *ALL) | after(2, 0)
    again.save(4, 2)
    assert again.checkpoints.rounds() == [7, 6, 4, 3, 1]
    assert read(again, 4) == after(1, 3) | after(2, 0) | after(3, 1) | after(4, 2)


def test_a_damaged_one_is_not_counted_among_the_last_two(session: Session) -> None:
    again = go_back(session, cut=8).save(8, 0)
    assert again.checkpoints.rounds() == [8, 6, 1]
    assert read(again, 6) == after(6, *ALL)
    again.save(9, 0)
    assert again.checkpoints.rounds() == [9, 8, 1]


def test_the_run_comes_to_the_damaged_ones_again(session: Session) -> None:
    again = go_back(session, cut=4)
    for round in range(2, 10):
        again.save(round, *ALL)
        assert read(again, round) == after(round, *ALL)
        assert read(again, 1) == after(1, *ALL)
    assert again.checkpoints.rounds() == [9, 8, 1]


def test_a_place_that_a_cut_file_no_longer_has_is_not_given_twice() -> None:
    places = Places(2, current=[0, 1], checkpoints={4: frozenset({0, 1}), 6: frozenset({2, 4})})
    taken = [places.take(), places.take()]
    assert taken == [3, 5]
    places.save(6, taken, [])  # in the place of the one that referred to 2 and 4
    assert [places.take(), places.take(), places.take()] == [2, 4, 6]
