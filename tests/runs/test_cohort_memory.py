"""What clients sent lies in memory up to a bound, then in scratch files, of which nothing is left behind."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import flatfed as ff
from engines.bench import assert_same, bits
from flatfed.core.configuration.settings import Settings
from flatfed.core.method.engine import Jobs, Reply
from flatfed.core.method.messages import Message
from flatfed.core.round.sampling import Uniform
from flatfed.experiments.planning.plan import Plan
from flatfed.runs.states.cohort import CohortMemory
from nursery import environment
from runs.bench import POPULATION, digest, in_new_process, litter, small_run
from runs.test_full_disk import can_mount

ENTRIES = 1000
ONE = 4 * ENTRIES * 9 // 8
"""What a vector counts for in memory, with what is lost between vectors."""


def vector(value: float) -> dict[str, Tensor]:
    return {"w": torch.full((ENTRIES,), float(value))}


def test_what_comes_first_stays_in_memory_and_all_of_it_reads_the_same(tmp_path: Path) -> None:
    memory = CohortMemory(3 * ONE, directory=tmp_path)
    stored = [memory.keep(vector(number)) for number in range(10)]
    assert (memory.bytes_in_memory, memory.scratch_files) == (3 * ONE, 1)
    for _ in range(2):
        assert [float(each["w"].sum()) for each in stored] == [ENTRIES * number for number in range(10)]
    assert stored[0]["w"] is stored[0]["w"]
    assert stored[9]["w"] is not stored[9]["w"]
    assert list(tmp_path.iterdir()) == [], "scratch files must have no name"


def test_what_is_let_go_makes_room_in_memory_and_in_the_file(tmp_path: Path) -> None:
    memory = CohortMemory(ONE, directory=tmp_path)
    for _ in range(3):
        stored = [memory.keep(vector(number)) for number in range(5)]
        assert memory.bytes_in_memory == ONE
        assert sizes_of_scratch(tmp_path) == [4 * 4 * ENTRIES]
        del stored
        assert memory.bytes_in_memory == 0
        assert sizes_of_scratch(tmp_path) == [0]


def sizes_of_scratch(folder: Path) -> list[int]:
    """Return the sizes of this process's files in a folder that have no name."""
    found = {}
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            target = str(descriptor.readlink())
            about = descriptor.stat()
        except OSError:
            continue
        if target.startswith(str(folder)) and not about.st_nlink:
            found[about.st_ino] = about.st_size
    return list(found.values())


def test_every_type_and_shape_comes_back_as_it_was() -> None:
    generator = torch.Generator().manual_seed(0)
    real = torch.randn(7, generator=generator)
    tensors = {
        "double": real.double(),
        "bytes": torch.arange(5, dtype=torch.uint8),
        "counters": torch.arange(3),
        "half": real.bfloat16(),
        "number": torch.tensor(0.1, dtype=torch.float64),
        "none": torch.empty(0),
        "rows": real[:6].view(2, 3).T,
    }
    stored = CohortMemory(0).keep(tensors)
    assert set(stored) == set(tensors)
    assert all(torch.equal(stored[name], tensors[name]) for name in tensors)
    assert all(stored[name].dtype == tensors[name].dtype for name in tensors)
    with pytest.raises(KeyError):
        stored["w"]


def test_the_room_that_others_take_counts() -> None:
    taken = [0]
    memory = CohortMemory(3 * ONE, others=lambda: taken[0])
    stored = [memory.keep(vector(0))]
    taken[0] = 2 * ONE
    stored.append(memory.keep(vector(1)))
    assert memory.bytes_in_memory == ONE


def test_a_vector_that_was_changed_in_place_is_an_error() -> None:
    stored = CohortMemory(None).keep(vector(1.0))
    stored["w"].add_(1)
    with pytest.raises(ff.FlatfedError, match="changed in place"):
        stored["w"]


def test_a_forked_process_leaves_the_file_alone(tmp_path: Path) -> None:
    memory = CohortMemory(0, directory=tmp_path)
    stored = [memory.keep(vector(1.0))]
    child = os.fork()
    if not child:
        stored.clear()
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert float(stored[0]["w"].sum()) == ENTRIES


class Watched:
    """A real engine that counts how many vectors of earlier replies are alive when one comes."""

    def __init__(self, engine: Any) -> None:
        self.engine, self.gaps, self.most = engine, engine.gaps, 0

    def exchange(self, message: Message, jobs: Jobs) -> Iterator[Reply]:
        vectors: list[weakref.ref[Tensor]] = []
        for reply in self.engine.exchange(message, jobs):
            self.most = max(self.most, sum(vector() is not None for vector in vectors))
            assert reply.kept is not None
            vectors += map(weakref.ref, (*reply.message.vectors.values(), *reply.kept.tensors().values()))
            yield reply
            del reply

    def compute(self, *work: Any) -> Iterator[tuple[int, dict[str, Tensor]]]:
        return self.engine.compute(*work)


@pytest.mark.parametrize(("memory", "most"), [("0B", 6), ("unlimited", 57)])
def test_replies_and_states_are_let_go_as_they_come(memory: str, most: int) -> None:
    """Scaffold has three vectors per client: those of the reply before, and of the one before that, may be alive."""
    settings = {"rounds": 1, "lr": 0.1, "cohort_memory": memory, "vectorised": False}
    data = [(torch.randn(4, 3, generator=torch.Generator().manual_seed(k)), torch.arange(4) % 2) for k in range(20)]
    task = ff.Task(torch.nn.Linear(3, 2), data)
    plan = Plan(task, ff.make("scaffold"), Settings(**settings), Uniform(20))
    engine = plan.with_workers(0).engine()
    watched = Watched(engine)
    assert [row["round"] for row in plan.federation(watched).rounds()] == [0]
    assert watched.most <= most
    assert (watched.most == most) == (memory == "unlimited")


# A run, however it ends.


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return digest(small_run(None))


def test_a_run_in_a_directory_spills_there_and_comes_to_the_same_bits(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", cohort_memory="0B", workers=2)
    memory: Any = run._federation.memory
    assert memory.scratch_files > 0
    assert sum(sizes_of_scratch(tmp_path / "run")) == 0
    assert litter(tmp_path / "run") == []
    assert_same(bits(ff.load_run(tmp_path / "run"), POPULATION), bits(small_run(None), POPULATION))


def test_a_run_goes_on_with_less_memory_to_the_same_bits(tmp_path: Path) -> None:
    longer = digest(small_run(None, average=None, rounds=3))
    small_run(tmp_path / "run", average=None, rounds=2)
    run = ff.resume(tmp_path / "run", 3, cohort_memory="0B")
    memory: Any = run._federation.memory
    assert memory.scratch_files > 0
    assert digest(run) == longer
    with pytest.raises(ff.ConfigError, match=r"cohort_memory: .*'lots' is no amount of memory"):
        ff.resume(tmp_path / "run", 4, cohort_memory="lots")


ENDED = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from runs import bench
from runs.test_cohort_memory import sizes_of_scratch

path, how = Path(sys.argv[1]), sys.argv[2]


def ending(*given):
    bench.steps_left = None
    (path.parent / "seen").write_text(str(sum(sizes_of_scratch(path))))
    if how == "error":
        raise ValueError("on purpose")
    os.kill(os.getpid(), signal.SIGINT if how == "interrupt" else signal.SIGKILL)


bench.os, bench.steps_left = SimpleNamespace(kill=ending, getpid=os.getpid), 14  # in the middle of the second round
bench.small_run(path, cohort_memory="0B")
"""


@pytest.mark.parametrize("how", ["error", "interrupt", "kill"])
def test_nothing_is_left_of_a_run_that_ends_in_the_middle_of_a_round(
    how: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    path = tmp_path / "run"
    done = in_new_process("-c", ENDED, str(path), how)
    # After an interrupt the run comes back as it is.
    assert (done.returncode == 0) == (how == "interrupt"), done.stderr
    assert int((tmp_path / "seen").read_text()) > 0, done.stderr
    assert [file.name for file in path.rglob("*") if file.name.endswith(".tmp")] == []
    assert digest(ff.resume(path)) == expected
    assert litter(path) == []


FILLED = """
import json, sys
from pathlib import Path
import flatfed as ff
from runs.bench import digest, litter, small_run

disk = Path(sys.argv[1])
path, filling = disk / "run", disk / "filling"


def fill(row):
    if row["round"] == 1:
        with filling.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(512))
            except OSError:
                pass


report = {}
try:
    small_run(path, on_round=fill, cohort_memory="0B", checkpoint_every=2)
except ff.FlatfedError as error:
    report["error"] = str(error)
filling.unlink()
report["bits"] = digest(ff.resume(path))
report["litter"] = litter(path)
print(json.dumps(report))
"""


@pytest.mark.skipif(not can_mount(), reason="no small disk can be made here")
def test_a_full_disk_is_a_sentence_that_names_the_folder_and_the_run_goes_on_later(
    tmp_path: Path, expected: dict[str, Any]
) -> None:
    disk, script = tmp_path / "disk", tmp_path / "script.py"
    disk.mkdir()
    script.write_text(FILLED)
    mounted = f"mount -t tmpfs -o size=1m none '{disk}' && exec \"$@\""
    command = ["unshare", "-rm", "sh", "-c", mounted, "sh", sys.executable, str(script), str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    told = f"a scratch file in {disk}/run could not be written: the disk is full; make room, then continue with"
    assert told in report["error"]
    assert report["bits"] == expected
    assert report["litter"] == []
