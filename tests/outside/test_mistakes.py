"""What authors and users do wrong: each is a sentence, and what is broken takes nothing else with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from outside.project import PARTS, QUICK, flatfed, refused, succeed

FILES = {
    "syntax.py": "class X(:\n",
    "raises.py": 'raise RuntimeError("first line\\nsecond line")\n',
    "leaves.py": "import sys; sys.exit('bye')\n",
    "lacks.py": "import nowhere_x\n",
    "bytes.py": b'x = "\xff"\n',
    "odd_id.py": "import flatfed as ff\nclass M(ff.Algorithm, id='a b+c'):\n    pass\n",
    "good.py": "import flatfed as ff\nclass M(ff.Algorithm):\n    pass\nmade = M()\ndef make():\n    return M()\n",
    "twin.py": "import flatfed as ff\nclass M(ff.Algorithm):\n    pass\n",
}
METHODS = {
    "syntax:X": "cannot be imported: invalid syntax (syntax.py, line 1)",
    "raises:X": "cannot be imported: first line second line (",
    "leaves:X": "cannot be imported: bye (",
    "lacks:X": "No module named 'nowhere_x'",
    "bytes:X": "cannot be imported",
    "odd_id:M": "'a b+c' cannot be an id",
    "good:made": "is a M, not an algorithm",
    "good:make": "is a function, not an algorithm",
    "good.py:M": "a module is named without its ending: good",
    "./good:M": "from where you start: good:M",
    "/elsewhere/good.py:M": "from where you start: good:M",
    "../good:M": "from where you start: good:M",
    "mine/parts:Louder": "from where you start: mine.parts:Louder",
    "good.M": "from where you start: good:M",
    "my-file:M": "written module:Name",
    "good:": "written module:Name",
    "good:M+good:M": "'m' is an algorithm, which stands first and alone",
    "__main__:M": "has no attribute 'M'",
}


@pytest.fixture(scope="module")
def mistaken(made: Path) -> Path:
    """The project with modules that have mistakes in them."""
    for name, content in FILES.items():
        (made / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return made


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_is_none_is_one_sentence(method: str, mistaken: Path) -> None:
    said = refused("run", "digits", method, "--rounds", "1", "--out", "never", cwd=mistaken)
    assert METHODS[method] in said
    assert len(said.strip().splitlines()) == 1
    assert not (mistaken / "never").exists()


def test_two_classes_of_one_name_are_told_apart(mistaken: Path) -> None:
    said = refused("compare", "digits", "good:M", "twin:M", "--rounds", "1", "--out", "never", cwd=mistaken)
    assert "twin.M: the algorithm id 'm' is taken by good.M; give it another id" in said


def test_names_of_any_letters_are_found(made: Path) -> None:
    (made / "überall.py").write_text("import flatfed as ff\nclass Ärger(ff.Algorithm):\n    pass\n")
    # As Python has the name, and as a keyboard may type it: a letter, and two dots above it.
    for number, method in enumerate(["überall:Ärger", "u\u0308berall:A\u0308rger"]):
        out = f"runs/letters-{number}"
        succeed("run", "mine.parts:load", method, *QUICK, "--workers", "0", "--out", out, cwd=made)
        assert json.loads((made / out / "config.json").read_text())["method"] == "ärger"
    assert "überall:Ärger" in succeed("show", "runs/letters-0", cwd=made)
    succeed("resume", "runs/letters-1", "--rounds", "3", cwd=made)


@pytest.fixture
def moved(made: Path, tmp_path: Path) -> Path:
    """The project with its run, in another folder than it was."""
    (tmp_path / "mine").mkdir()
    shutil.copy(made / "mine/parts.py", tmp_path / "mine")
    shutil.copytree(made / "runs/r", tmp_path / "runs/r")
    return tmp_path


def test_a_project_that_was_moved_says_so(moved: Path) -> None:
    said = refused("evaluate", "runs/r", cwd=moved)
    assert f"would run {moved / 'mine/parts.py'} (not where it was then)" in said
    succeed("evaluate", "runs/r", "--trust", "--workers", "0", cwd=moved)


def test_parameters_that_have_another_name_now(moved: Path) -> None:
    changed = PARTS.replace("rho: NonNegative = 0.05", "tau: NonNegative = 0.05").replace(
        "1 + self.rho", "1 + self.tau"
    )
    (moved / "mine/parts.py").write_text(changed)
    said = refused("resume", "runs/r", "--trust", "--rounds", "3", "--accept-changed-code", cwd=moved)
    assert "louder: unknown parameter 'rho'" in said
    assert f"since the run was made, the algorithm louder was changed in {moved / 'mine/parts.py'}" in said
    assert "louder" in succeed("show", "runs/r", cwd=moved)


def test_a_helper_that_was_changed_is_noticed(tmp_path: Path) -> None:
    helped = PARTS.replace("class Louder", "from mine.shares import more\n\n\nclass Louder").replace(
        "1 + self", "more + self"
    )
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/parts.py").write_text(helped)
    (tmp_path / "mine/shares.py").write_text("more = 1\n")
    method = "mine.parts:Louder"
    succeed("run", "mine.parts:load", method, *QUICK, "--workers", "0", "--out", "runs/r", cwd=tmp_path)
    (tmp_path / "mine/shares.py").write_text("more = 2\n")
    said = refused("resume", "runs/r", "--rounds", "3", cwd=tmp_path)
    assert f"the algorithm louder was changed in {tmp_path / 'mine/shares.py'}" in said
    record = tmp_path / "runs/r/config.json"
    assert '"mine.shares"' in record.read_text()


ENTRIES = """
[flatfed.algorithms]
good = bad_parts.parts:Good
leaves = bad_parts.leaves:X
lacking = bad_parts.parts:Nothing
malformed = not a place at all
module = bad_parts.parts
other-family = bad_parts.parts:Optimiser
twice = bad_parts.parts:Good
[flatfed.engines]
e = bad_parts.leaves:X
"""


def test_entry_points_with_mistakes_break_nothing_else(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "bad_parts").mkdir(parents=True)
    classes = "class Good(ff.Algorithm, id='good'):\n    pass\nclass Optimiser(ff.ClientOptimiser):\n    pass\n"
    (site / "bad_parts/parts.py").write_text(f"import flatfed as ff\n{classes}")
    (site / "bad_parts/leaves.py").write_text("raise SystemExit(3)\n")
    contents = {
        "bad": ENTRIES,
        "worse": "[flatfed.algorithms]\ntwice = bad_parts.parts:Good\n",
        "odd": "[flatfed.\n = :",
    }
    for name, content in contents.items():
        about = site / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "entry_points.txt").write_text(content)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    done = flatfed("list", "algorithms", "--json", cwd=tmp_path, paths=(site,))
    assert done.returncode == 0, done.stderr
    assert {"good", "fedavg"} <= {entry["id"] for entry in json.loads(done.stdout)}
    for sentence in (
        "the algorithm id 'twice' is claimed by ",
        "'leaves' of the package bad 1.0 cannot be imported: 3",
        "'lacking' of the package bad 1.0 cannot be imported",
        "'malformed' of the package bad 1.0 is said to be at 'not a place at all', which is no module:Name",
        "bad_parts.parts of the package bad 1.0 is no algorithm",
        "bad_parts.parts:Optimiser of the package bad 1.0 is no algorithm",
    ):
        assert sentence in done.stderr
    assert flatfed("list", "engines", cwd=tmp_path, paths=(site,)).returncode == 0
    small = ("--rounds", "1", "--clients", "5", "--model", "logreg", "--workers", "0")
    succeed("run", "digits", "fedavg", *small, "--out", "r", cwd=tmp_path, paths=(site,))


SCRIPT = """
import torch
import flatfed as ff

class Here(ff.Algorithm, id="here-with-workers"):
    def gradient(self, client):
        return client.gradient() * 1.5

x, y = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(30) % 3
task = ff.Task(torch.nn.Linear(4, 3), [(x[k::5], y[k::5]) for k in range(5)], (x, y))
given = dict(sampling=3, rounds=2, lr=0.1)
alone, together = (ff.train(task, Here(), workers=count, out=f"r{count}", **given) for count in (0, 2))
assert torch.equal(alone.vector, together.vector)
assert torch.equal(ff.resume("r2", rounds=3).vector, ff.resume("r0", rounds=3).vector)
"""


def test_a_method_of_a_script_trains_with_workers_and_is_resumed_there(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    succeed("python", "script.py", cwd=tmp_path)
    said = refused("resume", "r2", "--rounds", "4", cwd=tmp_path)
    assert "script or notebook" in said
    assert "__main__:Here" in succeed("show", "r2", cwd=tmp_path)
