"""The files of client states: damage is noticed, places are used again, earlier layouts go on, readers can read on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import flatfed as ff
from engines.bench import assert_same, bits, exact
from flatfed.core.method.state import State
from flatfed.runs.checkpoints import Checkpoints, Loaded
from flatfed.runs.states.free_places import Places
from flatfed.runs.states.index_log import ENTRY
from flatfed.runs.states.store import StateStore
from runs.bench import POPULATION, litter, small_run
from runs.earlier_layout import in_earlier_layout

RUN = "0123456789abcdef"
SIZE = 3 * 4 + 8


def state(value: float) -> State:
    return State({"h": torch.full((3,), value), "count": torch.tensor(value, dtype=torch.float64)})


class Session:
    """A process that saves: round r changes the states of some clients to 100 r + client."""

    def __init__(self, root: Path, kept: tuple[int, ...] = (), budget: int = 2**20) -> None:
        self.root, self.checkpoints = root, Checkpoints(root, RUN, kept)
        self.store = StateStore(lambda: state(0.0), budget)

    def save(self, round: int, *clients: int) -> Session:
        for client in clients:
            self.store.write(client, state(100.0 * round + client))
        self.checkpoints.save(round, {"w": torch.tensor([float(round)])}, {"clients": self.store})
        return self

    def resumed(self, round: int | None = None) -> Session:
        """Return a session that goes on from a checkpoint, or the newest good one."""
        other = Session(self.root)
        loaded = other.checkpoints.load_newest() if round is None else other.checkpoints.load(round)
        other.store.adopt(loaded.states["clients"])
        return other

    def file(self, kind: str) -> Path:
        (file,) = (self.root / "states").glob(f"*.{kind}")
        return file

    @property
    def places(self) -> int:
        return self.file("states").stat().st_size // SIZE


def values(loaded: Loaded) -> dict[int, float]:
    """Return each client's state by its one number."""
    found = {client: entries["count"].item() for client, entries in loaded.states["clients"].items()}
    for client, entries in loaded.states["clients"].items():
        assert exact(entries) == exact(state(found[client]).tensors())
    return found


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Clients 0..3 after round 1; round 2 changed 1 and 2, round 3 changed 2 and made 4."""
    return Session(tmp_path / "run/checkpoints").save(1, 0, 1, 2, 3).save(2, 1, 2).save(3, 2, 4)


THIRD = {0: 100.0, 1: 201.0, 2: 302.0, 3: 103.0, 4: 304.0}
SECOND = {0: 100.0, 1: 201.0, 2: 202.0, 3: 103.0}


def newest(session: Session) -> tuple[Loaded, list[str]]:
    said: list[str] = []
    return Checkpoints(session.root, RUN).load_newest(said.append), said


def test_both_checkpoints_have_their_states(session: Session) -> None:
    assert values(Checkpoints(session.root, RUN).load(3)) == THIRD
    assert values(Checkpoints(session.root, RUN).load(2)) == SECOND
    assert len(list((session.root / "states").iterdir())) == 2


def test_only_what_changed_is_written(session: Session) -> None:
    before, index = session.file("states").read_bytes(), session.file("index").stat().st_size
    session.save(4, 0)
    after = session.file("states").read_bytes()
    changed = [n for n in range(len(after) // SIZE) if after[n * SIZE :][:SIZE] != before[n * SIZE :][:SIZE]]
    assert len(changed) == 1
    assert session.file("index").stat().st_size == index + ENTRY.size
    session.save(5)
    assert session.file("states").read_bytes() == after


def test_places_that_no_checkpoint_refers_to_are_used_again(tmp_path: Path) -> None:
    session = Session(tmp_path / "checkpoints").save(1, *range(20))
    for round in range(2, 40):
        session.save(round, round % 20, (7 * round) % 20)
    # Twenty states, two more of the checkpoint before, and two that were written before the oldest was forgotten.
    assert session.places <= 24
    again = session.resumed()
    for round in range(40, 60):
        again.save(round, round % 20, (7 * round) % 20)
    assert again.places <= 24
    last = {client: max(r for r in range(1, 60) if touched(r, client)) for client in range(20)}
    assert values(Checkpoints(session.root, RUN).load(59)) == {c: 100.0 * r + c for c, r in last.items()}


def touched(round: int, client: int) -> bool:
    return round == 1 or client in (round % 20, (7 * round) % 20)


def test_a_file_becomes_shorter_where_its_end_is_free(tmp_path: Path) -> None:
    session = Session(tmp_path / "checkpoints").save(1, *range(10)).save(2, *range(10)).save(3, *range(10))
    assert session.places == 30
    session.save(4).save(5)
    # All but those of the third, which are the last: nobody else's can go.
    assert session.places == 30
    session.save(6, *range(10)).save(7).save(8)
    assert session.places == 10
    assert values(Checkpoints(session.root, RUN).load(8)) == {client: 600.0 + client for client in range(10)}


def test_the_index_is_begun_anew_when_it_is_twice_as_long_as_it_need_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flatfed.runs.states.index_log.SPARE_ENTRIES", 0)
    session = Session(tmp_path / "checkpoints").save(1, *range(10))
    names, most = set(), 0
    for round in range(2, 30):
        session.save(round, round % 10)
        logs = list((session.root / "states").glob("*.index"))
        names |= {log.name for log in logs}
        most = max(most, *(log.stat().st_size // ENTRY.size for log in logs))
        assert len(logs) <= 2
    assert len(names) > 2
    assert most <= 2 * 10 + 2


# Damage.


def flipped_at(position: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :]


def answer(session: Session) -> str:
    """Return what the newest checkpoint says: its round, or which is used instead, or that a state is refused."""
    try:
        loaded, said = newest(session)
    except ff.CheckpointError as error:
        assert str(session.root) in str(error)
        return "none"
    if loaded.round == 2:
        assert "round 3 cannot be used" in said[0]
    try:
        found = values(loaded)
    except ff.CheckpointError as error:
        assert session.file("states").name in str(error) and "is damaged at place" in str(error)
        return "refused when read"
    assert found == {3: THIRD, 2: SECOND}[loaded.round]
    return f"round {loaded.round}"


def test_no_flipped_bit_of_a_state_or_of_the_index_goes_unnoticed(session: Session) -> None:
    answers: dict[str, list[str]] = {"states": [], "index": []}
    for kind, found in answers.items():
        file, whole = session.file(kind), session.file(kind).read_bytes()
        for position in range(0, len(whole), 4):  # every entry and every state has some
            file.write_bytes(flipped_at(position)(whole))
            found.append(answer(session))
        file.write_bytes(whole)
    # New in round 3: two of the places. Shared by both checkpoints: three. Of the second alone, or free: the rest.
    counts = {kind: {each: found.count(each) for each in set(found)} for kind, found in answers.items()}
    assert counts["states"]["round 2"] == 2 * SIZE // 4
    assert counts["states"]["refused when read"] == 3 * SIZE // 4
    assert set(counts["states"]) == {"round 2", "refused when read", "round 3"}
    # The log of the second is the beginning of that of the third.
    assert counts["index"] == {"round 2": 2 * ENTRY.size // 4, "none": 6 * ENTRY.size // 4}


def test_no_cut_of_a_file_goes_unnoticed(session: Session) -> None:
    for kind in ("states", "index"):
        file, whole = session.file(kind), session.file(kind).read_bytes()
        answers = []
        for length in {*range(0, len(whole), 7), len(whole) - 1}:
            file.write_bytes(whole[:length])
            answers.append(answer(session))
        assert {"round 2", "none"} == set(answers), kind
        file.write_bytes(whole)


@pytest.mark.parametrize("kind", ["states", "index"])
def test_a_missing_file_is_named(kind: str, session: Session) -> None:
    name = session.file(kind).name
    session.file(kind).unlink()
    with pytest.raises(ff.CheckpointError, match=f"no usable checkpoint.*{name} cannot be read"):
        newest(session)


@pytest.mark.parametrize("kind", ["states", "index"])
def test_a_file_is_read_through_no_link_that_leads_out(kind: str, session: Session, tmp_path: Path) -> None:
    file = session.file(kind)
    shutil.move(file, tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ff.CheckpointError, match="is a link that leads out of"):
        Checkpoints(session.root, RUN).load(3)


def test_a_state_file_is_not_written_through_a_link(session: Session) -> None:
    file = session.file("states")
    file.rename(file.with_name("target"))
    file.symlink_to(file.with_name("target"))
    with pytest.raises(ff.CheckpointError, match="is a link"):
        session.resumed().save(4, 1)


def test_a_copy_by_hard_links_stays_as_it_is(session: Session, tmp_path: Path) -> None:
    shutil.copytree(session.root, tmp_path / "copy", copy_function=os.link)
    again = session.resumed().save(4, 1, 2).save(5, 3).save(6, 0, 1)
    assert values(Checkpoints(tmp_path / "copy", RUN).load(3)) == THIRD
    assert values(Checkpoints(tmp_path / "copy", RUN).load(2)) == SECOND
    assert values(Checkpoints(again.root, RUN).load(6)) == {0: 600.0, 1: 601.0, 2: 402.0, 3: 503.0, 4: 304.0}
    assert len(list((session.root / "states").iterdir())) == 2


def test_a_damaged_state_that_a_checkpoint_shares_stops_only_who_asks_for_it(session: Session) -> None:
    whole = session.file("states").read_bytes()
    session.file("states").write_bytes(flipped_at(0)(whole))  # of client 0, since round 1
    again = session.resumed()
    assert float(again.store.read(2).count) == 302.0
    with pytest.raises(ff.CheckpointError, match=r"clients-.*\.states is damaged at place 0"):
        again.store.read(0)
    again.store.write(0, state(7.0))
    assert float(again.store.read(0).count) == 7.0


# Going on from an earlier checkpoint.


def test_going_on_from_the_one_before_keeps_what_the_newest_refers_to(session: Session) -> None:
    again = session.resumed(2).save(3, 0)
    assert values(Checkpoints(again.root, RUN).load(3)) == SECOND | {0: 300.0}
    again.save(4, 1).save(5, 1)
    assert values(Checkpoints(again.root, RUN).load(4)) == SECOND | {0: 300.0, 1: 401.0}
    assert values(Checkpoints(again.root, RUN).load(5)) == SECOND | {0: 300.0, 1: 501.0}
    assert again.places <= 8


def test_named_checkpoints_keep_their_states(tmp_path: Path) -> None:
    session = Session(tmp_path / "checkpoints", kept=(1, 3)).save(1, *range(5))
    for round in range(2, 20):
        session.save(round, round % 5, (3 * round) % 5)
    assert sorted(session.checkpoints.rounds()) == [1, 3, 18, 19]
    assert values(Checkpoints(session.root, RUN).load(1)) == {client: 100.0 + client for client in range(5)}
    third = {client: 100.0 + client for client in range(5)} | {2: 202.0, 1: 201.0, 3: 303.0, 4: 304.0}
    assert values(Checkpoints(session.root, RUN).load(3)) == third
    again = Session(session.root, kept=(1, 3))
    again.store.adopt(again.checkpoints.load_newest().states["clients"])
    for round in range(20, 30):
        again.save(round, round % 5)
    assert values(Checkpoints(session.root, RUN).load(3)) == third
    assert again.places <= 5 + 5 + 4 + 4


# Readers.


def test_a_checkpoint_that_somebody_reads_is_not_forgotten(session: Session) -> None:
    loaded = Checkpoints(session.root, RUN).load(3)
    for round in range(4, 12):
        session.save(round, 0, 1, 2, 3, 4)
    assert session.checkpoints.rounds() == [11, 10, 3]
    assert values(loaded) == THIRD
    del loaded
    session.save(12, 0)
    assert session.checkpoints.rounds() == [12, 11]


def test_who_goes_on_forgets_the_checkpoint_that_it_came_from(session: Session) -> None:
    again = session.resumed().save(4, 1).save(5, 1)
    assert again.checkpoints.rounds() == [5, 4]


def test_a_run_is_read_while_it_goes_on(tmp_path: Path) -> None:
    small_run(tmp_path / "run", rounds=3, average=None)
    run = ff.load_run(tmp_path / "run")
    ff.resume(tmp_path / "run", rounds=8)
    assert_same(bits(run, POPULATION), bits(small_run(None, rounds=3, average=None), POPULATION))


# Nothing is read that nobody asks for.


def test_opening_a_run_reads_only_what_was_new_in_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(tmp_path / "checkpoints").save(1, *range(500)).save(2, 3, 4)
    read: list[int] = []
    original = os.preadv

    def preadv(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        read.append(offset // SIZE)
        return original(descriptor, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    again = session.resumed()
    assert len(read) == 2
    again.save(3, 7)
    assert len(read) == 2
    assert float(again.store.read(9).count) == 109.0
    assert len(read) == 3


# A file for each client, as earlier versions wrote it.


def test_a_run_in_the_earlier_layout_goes_on_in_the_new_one(tmp_path: Path) -> None:
    expected = bits(small_run(None, rounds=6, average=None), POPULATION)
    small_run(tmp_path / "run", rounds=3, average=None)
    files = in_earlier_layout(tmp_path / "run")
    assert files
    before = bits(ff.load_run(tmp_path / "run"), POPULATION)
    assert_same(before, bits(small_run(None, rounds=3, average=None), POPULATION))
    newest = {entry.rsplit(":", 1)[0] for entry in states_of_round(tmp_path / "run", 3).values()}
    kept: list[bool] = []

    def look(row: dict[str, object]) -> None:
        kept.append(newest <= {file.name for file in files if file.exists()})

    run = ff.resume(tmp_path / "run", rounds=6, on_round=look)
    # Of the two that stay, one is in the earlier layout until the second new one is in place.
    assert kept == [True, False, False]
    assert_same(bits(run, POPULATION), expected)
    assert_same(bits(ff.load_run(tmp_path / "run"), POPULATION), expected)
    assert litter(tmp_path / "run") == []
    assert {file.suffix for file in (tmp_path / "run/checkpoints/states").iterdir()} == {".states", ".index"}


def states_of_round(run: Path, round: int) -> dict[str, str]:
    """Return the entries of a manifest in the earlier layout."""
    file = run / f"checkpoints/round-{round:06d}/checkpoint.json"
    states: dict[str, str] = json.loads(file.read_text())["manifest"]["states"]["clients"]
    return states


def test_a_damaged_file_of_the_earlier_layout_is_passed_over(tmp_path: Path) -> None:
    small_run(tmp_path / "run", rounds=3, average=None)
    in_earlier_layout(tmp_path / "run")
    newest, before = (set(states_of_round(tmp_path / "run", round).values()) for round in (3, 2))
    only = newest - before
    file = tmp_path / "run/checkpoints/states" / only.pop().rsplit(":", 1)[0]
    file.write_bytes(file.read_bytes()[:-1])
    said: list[str] = []
    run = ff.resume(tmp_path / "run", say=said.append)
    assert file.name in said[0] and "that of round 2 is used instead" in said[0]
    assert_same(bits(run, POPULATION), bits(small_run(None, rounds=3, average=None), POPULATION))


# Free places.


def test_a_place_is_free_when_the_last_that_refers_to_it_is_gone() -> None:
    places = Places()
    first, second = places.take(), places.take()
    places.save(1, [first, second], [])
    third = places.take()
    places.save(2, [third], [first])
    fourth = places.take()
    assert [first, second, third, fourth] == [0, 1, 2, 3]
    places.save(3, [fourth], [third])
    places.forget(1)
    assert places.take() == first
    places.forget(2)
    assert places.take() == third
    assert places.take() == 4


def test_places_are_known_from_the_checkpoints_that_are_there() -> None:
    there = {4: frozenset({0, 1, 2}), 5: frozenset({0, 3, 2})}
    places = Places(6, current=[0, 3, 2], checkpoints=there)
    assert [places.take(), places.take(), places.take()] == [4, 5, 6]
    places.forget(4)
    assert places.take() == 1
    other = Places(6, current=[0, 1, 2], checkpoints=there)
    other.forget(5)
    assert sorted([other.take(), other.take(), other.take()]) == [3, 4, 5]
