"""Runs, comparisons and YAML files of strangers: nothing that they name is run, and no link in them is followed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.command import PROCESS, SMALL, fingerprint, flatfed, read_history, read_json, refused
from records import rewrite

QUICK = ("--rounds", "1", "--clients", "5", "--per-round", "2", "--workers", "0")

NETS = """
from pathlib import Path
from torch import nn

Path({marker!r}).touch()

class Net(nn.Sequential):
    def __init__(self, classes, in_channels, image_size):
        super().__init__(nn.Flatten(), nn.Linear(in_channels * image_size**2, classes))
"""

WRITTEN_HERE = ("pack", "pkg", "nets", "my_models", "kept", "comparison")
"""Modules and packages that tests write into the folder where they work."""

OPENING: dict[str, tuple[str, ...]] = {
    "resume": ("--rounds", "4", "--workers", "0"),
    "evaluate": ("--workers", "0"),
    "branch": ("--from", "0", "--out", "branched", "--workers", "0"),
    "flatness": ("--measure", "loss", "--samples", "20", "--workers", "0"),
    "landscape": ("--points", "3", "--samples", "20", "--kind", "along", "--directions", "1", "--workers", "0"),
    "robustness": ("--corruptions", "brightness", "--workers", "0"),
}
"""Commands that build the model of a run, and options that make them quick."""


@pytest.fixture(autouse=True)
def _own_search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the folders forgotten that commands of this process add to where modules are looked for."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture(autouse=True)
def _own_modules() -> Iterator[None]:
    """Have the modules of a test forgotten."""
    yield
    forget_modules()


def forget_modules() -> None:
    """Have the modules forgotten that lie in the folder of a test."""
    for name in list(sys.modules):
        if name.partition(".")[0] in WRITTEN_HERE:
            del sys.modules[name]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that is there once somebody's code has run."""
    return tmp_path / "code-has-run"


@pytest.fixture
def stranger(tmp_path_factory: pytest.TempPathFactory, marker: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported, but lies in no project of the user's."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "strange_nets.py").write_text(NETS.format(marker=str(marker)))
    monkeypatch.syspath_prepend(str(folder))
    yield_to_next_test(monkeypatch, "strange_nets")
    return "strange_nets:Net"


def yield_to_next_test(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Have a module forgotten when the test ends, and not known before."""
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, module)


def with_model(file: Path, model: str, **changes: Any) -> Path:
    """Change the model that the record of a run or a comparison names."""
    record = read_json(file)
    record["task"] |= {"model": model} | changes
    rewrite(file, record)
    return file


def shell(marker: Path) -> dict[str, Any]:
    """Options under which `subprocess:getoutput` runs a command."""
    return {"model_options": {"cmd": f"touch {marker}"}}


@pytest.mark.parametrize("command", OPENING)
def test_a_run_does_not_run_what_it_names(command: str, run: Path, marker: Path, stranger: str) -> None:
    config = with_model(run / "config.json", "subprocess:getoutput", **shell(marker))
    refused(flatfed(command, run, *OPENING[command]), f"{config} names subprocess:getoutput", "standard library")
    with_model(config, stranger, model_options={})
    refused(flatfed(command, run, *OPENING[command]), stranger, "strange_nets.py", "would run", "--trust")
    assert not marker.exists()
    done = flatfed(command, run, *OPENING[command], "--trust")
    assert (done.code, marker.exists()) == (0, True), done.err


def test_trust_has_its_end_at_the_standard_library(run: Path, marker: Path) -> None:
    with_model(run / "config.json", "subprocess:getoutput", **shell(marker))
    refused(flatfed("evaluate", run, "--trust"), "subprocess:getoutput", "standard library")
    assert not marker.exists()


def test_a_comparison_does_not_run_what_it_names(comparison: Path, marker: Path) -> None:
    shutil.rmtree(comparison / "fedavg" / "seed-1")
    file = with_model(comparison / "comparison.json", "subprocess:getoutput", **shell(marker))
    refused(flatfed("resume", comparison), f"{file} names subprocess:getoutput")
    assert not marker.exists()


def test_to_look_at_runs_imports_nothing(run: Path, comparison: Path, marker: Path, stranger: str) -> None:
    for file in (run / "config.json", *comparison.glob("*/*/config.json"), comparison / "comparison.json"):
        with_model(file, stranger)
    for path in (run, comparison):
        assert flatfed("show", path).code == 0
        assert flatfed("show", path, "--json").code == 0
        assert flatfed("show", path, "--figure", "figure.png").code == 0
    assert flatfed("list", "models").code == 0
    assert not marker.exists()


def test_commands_in_processes_of_their_own(run: Path, marker: Path, tmp_path: Path) -> None:
    with_model(run / "config.json", "subprocess:getoutput", **shell(marker))
    file = tmp_path / "options.yaml"
    file.write_text(f"model: subprocess:getoutput\nset: {{model.cmd: touch {marker}}}\n")
    for arguments in (("evaluate", str(run)), ("run", "digits", "fedavg", *QUICK, "--config", str(file))):
        done = subprocess.run([*PROCESS, *arguments], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2, done.stderr
        assert "names subprocess:getoutput" in done.stderr and "Traceback" not in done.stderr
    assert not marker.exists()


# --- YAML, and what is typed ----------------------------------------------------------------------------------


def in_yaml(text: str) -> Any:
    Path("options.yaml").write_text(text)
    return flatfed("run", "digits", "fedavg", *QUICK, "--config", "options.yaml", "--out", "out")


def test_yaml_does_not_run_what_it_names(marker: Path, stranger: str) -> None:
    refused(in_yaml(f"model: subprocess:getoutput\nset: {{model.cmd: touch {marker}}}"), "options.yaml names subpro")
    refused(in_yaml(f"model: {stranger}"), f"options.yaml names {stranger}", "--trust")
    refused(in_yaml(f"model: {stranger}\ntrust: true"), "unknown option 'trust'")
    assert not marker.exists() and not Path("out").exists()
    assert flatfed("run", "digits", "fedavg", *QUICK, "--config", "options.yaml", "--model", "logreg").code == 2
    Path("options.yaml").write_text(f"model: {stranger}")
    typed = ("run", "digits", "fedavg", *QUICK, "--config", "options.yaml", "--trust")
    assert flatfed(*typed).code == 0
    assert marker.exists()


def test_yaml_builds_no_objects(marker: Path) -> None:
    refused(in_yaml(f'rounds: !!python/object/apply:os.system ["touch {marker}"]'), "is not YAML")
    assert not marker.exists()


@pytest.mark.parametrize("kind", ["lists", "merged", "itself"])
def test_yaml_that_repeats_itself_without_end(kind: str) -> None:
    bombs = {"lists": ["a0: &a0 [x]"], "merged": ["a0: &a0 {x: 1}"], "itself": ["rounds: &a [*a, *a]"]}
    forms = {"lists": "a{0}: &a{0} [{1}]", "merged": "a{0}: &a{0} {{<<: [{1}]}}"}
    lines = bombs[kind]
    if kind in forms:
        lines += [forms[kind].format(n, ", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 20)]
    refused(in_yaml("\n".join(lines)), "aliases (*name) are not taken; write it out")


def test_yaml_may_name_what_lies_here(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("nets_in_yaml.py").write_text(NETS.format(marker=str(marker)))
    yield_to_next_test(monkeypatch, "nets_in_yaml")
    assert in_yaml("model: nets_in_yaml:Net").code == 0


@pytest.fixture
def pack(marker: Path) -> Path:
    """A folder with code and a YAML file that names it."""
    Path("pack/sub").mkdir(parents=True)
    Path("pack/evil.py").write_text(NETS.format(marker=str(marker)))
    for file in ("pack/c.yaml", "pack/sub/c.yaml"):
        Path(file).write_text("model: pack.evil:Net")
    Path("link.yaml").symlink_to("pack/c.yaml")
    return Path("pack")


def with_yaml(file: object, *options: str) -> Any:
    return flatfed("run", "digits", "fedavg", *QUICK, "--config", file, "--out", "out", *options)


@pytest.mark.usefixtures("pack")
def test_yaml_does_not_run_code_that_was_packed_beside_it(marker: Path) -> None:
    for file in ("pack/c.yaml", "pack/sub/c.yaml", str(Path("pack/c.yaml").resolve()), "link.yaml"):
        refused(with_yaml(file), f"{file} names pack.evil:Net", "pack/evil.py; add --trust")
    assert not marker.exists() and not Path("out").exists()
    assert with_yaml("pack/c.yaml", "--trust").code == 0
    assert marker.exists()


@pytest.mark.usefixtures("pack")
def test_yaml_and_code_beside_it_in_a_process_of_its_own(marker: Path) -> None:
    words = [*PROCESS, "run", "digits", "fedavg", *QUICK, "--config", "pack/c.yaml", "--out", "out"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and "pack/evil.py; add --trust" in done.stderr, done.stderr
    assert not marker.exists()


@pytest.mark.parametrize(
    ("file", "place"),
    [("c.yaml", "nets.py"), ("examples/demo.yaml", "nets.py"), ("examples/demo.yaml", "pkg/nets.py")],
)
def test_yaml_of_ones_own(file: str, place: str, marker: Path) -> None:
    for path in (file, place):
        Path(path).parent.mkdir(exist_ok=True)
    Path(file).write_text(f"model: {module_of(place)}:Net")
    Path(place).write_text(NETS.format(marker=str(marker)))
    assert with_yaml(file).code == 0
    assert marker.exists()


def test_yaml_above_the_folder_where_one_works(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("work").mkdir()
    Path("c.yaml").write_text("model: nets:Net")
    monkeypatch.chdir("work")
    Path("nets.py").write_text(NETS.format(marker=str(marker)))
    assert with_yaml("../c.yaml").code == 0
    assert marker.exists()


def test_what_is_typed_must_make_a_model(marker: Path, stranger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("own_shell.py").write_text("from subprocess import getoutput, Popen\nfrom pathlib import Path\n")
    yield_to_next_test(monkeypatch, "own_shell")
    names = ("subprocess:getoutput", "own_shell:getoutput", "own_shell:Popen", "os:system", "builtins:exec")
    for name in (*names, "torch.hub:load", "flatfed.cli.main:main", "collections:OrderedDict"):
        done = flatfed("run", "digits", "fedavg", *QUICK, "--model", name, "--set", f"model.cmd=touch {marker}")
        refused(done, name)
    assert not marker.exists()
    assert flatfed("run", "digits", "fedavg", *QUICK, "--model", stranger).code == 0
    assert marker.exists()


# --- the user's own project -----------------------------------------------------------------------------------


@pytest.fixture
def own(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose network lies in a package of the present folder."""
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("from my_package.nets import Net\n")
    (package / "nets.py").write_text(NETS.format(marker=str(marker)))
    forget(monkeypatch)
    done = flatfed("run", "digits", "fedavg", *QUICK, "--model", "my_package:Net", "--out", "kept/own")
    assert done.code == 0, done.err
    marker.unlink()
    forget(monkeypatch)
    return tmp_path / "kept" / "own"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("my_package", "my_package.nets", "kept", "kept.own", "kept.own.nets", "kept.nets"):
        yield_to_next_test(monkeypatch, module)


def test_a_run_of_the_present_project_opens(own: Path, marker: Path) -> None:
    assert read_json(own / "config.json")["code"] == {"my_package": str(own.parents[1] / "my_package/__init__.py")}
    assert flatfed("evaluate", own).code == 0
    assert marker.exists()


def test_a_run_of_an_earlier_version_opens_where_its_code_lies(own: Path, marker: Path) -> None:
    without_record(own)
    assert flatfed("evaluate", own).code == 0
    assert marker.exists()


def test_a_namesake_is_another_module(own: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = own.parents[1]
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    (project / "my_package").rename(elsewhere / "my_package")
    monkeypatch.syspath_prepend(str(elsewhere))
    refused(flatfed("evaluate", "kept/own"), "my_package:Net", "elsewhere/my_package/__init__.py", "--trust")
    without_record(own)
    monkeypatch.chdir(own)  # neither here nor on PYTHONPATH
    refused(flatfed("evaluate", "."), "my_package:Net", "--trust")
    assert not marker.exists()
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    assert flatfed("evaluate", own).code == 0
    assert marker.exists()


def without_record(run: Path) -> None:
    """Have the record as earlier versions wrote it."""
    config = read_json(run / "config.json")
    del config["code"]
    rewrite(run / "config.json", config)


@pytest.mark.parametrize("has_record", [False, True], ids=["without a record", "with a record"])
@pytest.mark.parametrize("place", ["kept/own/nets.py", "kept/nets.py"])
def test_code_that_came_with_a_run_is_not_the_users(place: str, has_record: bool, own: Path, marker: Path) -> None:
    file = own.parents[1] / place
    shutil.copyfile(own.parents[1] / "my_package" / "nets.py", file)
    module = module_of(place)
    with_model(own / "config.json", f"{module}:Net")
    if has_record:
        with_record(own / "config.json", {module: str(file)})
    else:
        without_record(own)
    refused(flatfed("evaluate", own), ":Net", place, "--trust")
    assert not marker.exists()
    assert flatfed("evaluate", own, "--trust").code == 0
    assert marker.exists()


def module_of(place: str) -> str:
    return place.removesuffix(".py").replace("/", ".")


def with_record(file: Path, code: dict[str, str]) -> None:
    """Have a run or a comparison say which files its code was in: whoever packs it may guess where it will lie."""
    record = read_json(file)
    if file.name == "config.json":
        record["code"] = code
    else:
        record["about"]["code"] = code
    rewrite(file, record)


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "fedavg/seed-0"),
        ("resume", "fedavg/seed-0", "--rounds", "4"),
        ("flatness", "fedavg/seed-0", *OPENING["flatness"]),
        ("flatness", "", *OPENING["flatness"]),
        ("resume", ""),
    ],
)
def test_code_that_came_with_a_comparison_is_not_the_users(
    command: tuple[str, ...], comparison: Path, marker: Path
) -> None:
    code = comparison / "evil.py"
    code.write_text(NETS.format(marker=str(marker)))
    shutil.rmtree(comparison / "fedsam" / "seed-2")
    for file in (*comparison.glob("*/*/config.json"), comparison / "comparison.json"):
        with_model(file, "comparison.evil:Net")
        with_record(file, {"comparison.evil": str(code)})
    name, path, *options = command
    done = flatfed(name, comparison / path, *options)
    assert done.code != 0 and "add --trust" in done.err, done.err
    assert not marker.exists()


@pytest.mark.parametrize(
    ("place", "out"),
    [("my_models.py", "runs/x"), ("pkg/net.py", "runs/x"), ("pkg/net.py", "x"), ("pkg/deep/net.py", "runs/deep/x")],
)
def test_a_run_of_ones_own_opens(place: str, out: str, marker: Path) -> None:
    train_own(place, out, marker)
    done = flatfed("evaluate", out, "--workers", "0")
    assert (done.code, marker.exists()) == (0, True), done.err


def train_own(place: str, out: str, marker: Path) -> None:
    """Train a network that lies in the present folder."""
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    Path(place).write_text(NETS.format(marker=str(marker)))
    done = flatfed("run", "digits", "fedavg", *QUICK, "--model", f"{module_of(place)}:Net", "--out", out)
    assert done.code == 0, done.err
    marker.unlink()
    forget_modules()


def test_a_run_that_lies_with_its_code_needs_a_word_of_the_user(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_own("pkg/net.py", "pkg/runs/x", marker)
    refused(flatfed("evaluate", "pkg/runs/x"), "pkg/net.py; add --trust")
    assert not marker.exists()
    monkeypatch.setenv("PYTHONPATH", str(Path("pkg").resolve()))
    assert flatfed("evaluate", "pkg/runs/x").code == 0
    assert marker.exists()
    forget_modules()
    monkeypatch.delenv("PYTHONPATH")
    assert flatfed("evaluate", "pkg/runs/x", "--trust").code == 0


PROGRAM = """
import flatfed as ff
import torch
from net import halved
from torch import nn

data = [(torch.randn(8, 4), torch.arange(8) % 3) for _ in range(2)]
task = ff.Task(model=nn.Linear(4, 3), clients=data, prepare=halved)
ff.train(task, "fedavg", rounds=1, sampling=2, lr=0.1, workers=0, out="pkg/runs/x")
ff.load_run("pkg/runs/x")
"""


def test_the_folder_of_the_program_that_was_started_is_the_users() -> None:
    Path("pkg").mkdir()
    Path("pkg/net.py").write_text("def halved(inputs):\n    return inputs / 2\n")
    Path("pkg/train.py").write_text(PROGRAM)
    words = [sys.executable, "pkg/train.py"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_a_folder_of_pythonpath_does_not_vouch_for_what_was_put_into_it(
    run: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack = tmp_path / "library" / "pack"
    pack.mkdir(parents=True)
    run.rename(pack / "run")
    (pack / "evil.py").write_text(NETS.format(marker=str(marker)))
    with_model(pack / "run" / "config.json", "pack.evil:Net")
    with_record(pack / "run" / "config.json", {"pack.evil": str(pack / "evil.py")})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "library"))
    monkeypatch.syspath_prepend(str(tmp_path / "library"))
    refused(flatfed("evaluate", pack / "run"), "pack.evil:Net", "add --trust")
    assert not marker.exists()


# --- links ----------------------------------------------------------------------------------------------------


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of the user's that links lead to."""
    file = tmp_path / "letter.txt"
    file.write_text("dear reader\n")
    return file


@pytest.mark.parametrize("name", [".lock", "history.jsonl"])
def test_a_new_run_writes_through_no_link(name: str, victim: Path) -> None:
    Path("planted").mkdir()
    Path("planted", name).symlink_to(victim)
    refused(flatfed("run", "digits", "fedavg", *SMALL, "--out", "planted"), f"{name} is a link", "remove the link")
    assert victim.read_text() == "dear reader\n"


def test_a_new_run_writes_through_no_link_with_the_name_of_a_temporary_file(victim: Path) -> None:
    Path("planted").mkdir()
    for name in ("environment.json", "config.json", "status.json"):
        Path("planted", f".{name}.{os.getpid()}.tmp").symlink_to(victim)
    assert flatfed("run", "digits", "fedavg", *SMALL, "--out", "planted").code == 0
    assert victim.read_text() == "dear reader\n"


def test_a_new_run_writes_into_no_folder_elsewhere(tmp_path: Path) -> None:
    Path("planted").mkdir()
    Path("elsewhere").mkdir()
    Path("planted", "checkpoints").symlink_to(tmp_path / "elsewhere")
    refused(flatfed("run", "digits", "fedavg", *SMALL, "--out", "planted"), "checkpoints is a link")
    assert not list(Path("elsewhere").iterdir())


def _lock(run: Path, victim: Path) -> None:
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(victim)


def _history(run: Path, victim: Path) -> None:
    victim.write_bytes((run / "history.jsonl").read_bytes())
    (run / "history.jsonl").unlink()
    (run / "history.jsonl").symlink_to(victim)


def _temporary_files(run: Path, victim: Path) -> None:
    for name in ("config.json", "status.json", "history.jsonl"):
        (run / f".{name}.{os.getpid()}.tmp").symlink_to(victim)


def _status(run: Path, victim: Path) -> None:
    victim.write_bytes((run / "status.json").read_bytes())
    (run / "status.json").unlink()
    (run / "status.json").symlink_to(victim)


def test_a_run_whose_results_are_a_link_is_refused_before_it_trains(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (run / "flatness").symlink_to(tmp_path / "elsewhere")
    before = fingerprint(run)
    refused(flatfed("resume", run, "--rounds", "5"), "flatness is a link", "remove the link")
    assert fingerprint(run) == before


def test_a_comparison_with_a_run_whose_results_are_a_link_is_refused_before_it_trains(tmp_path: Path) -> None:
    assert flatfed("compare", "digits", "fedavg", *SMALL, "--out", "both").code == 0
    (tmp_path / "elsewhere").mkdir()
    Path("both/fedavg/seed-0/flatness").symlink_to(tmp_path / "elsewhere")
    before = fingerprint(Path("both"))
    refused(flatfed("resume", "both"), "flatness is a link", "remove the link")
    assert fingerprint(Path("both")) == before


@pytest.mark.parametrize("plant", [_lock, _history, _temporary_files, _status])
def test_a_run_that_goes_on_writes_through_no_link(
    plant: Callable[[Path, Path], None], run: Path, victim: Path
) -> None:
    plant(run, victim)
    before = victim.read_bytes()
    done = flatfed("resume", run, "--rounds", 4)
    # What is replaced may go on: the link is gone then, and its target is as it was.
    assert done.code == (2 if plant is _lock else 0), done.err
    assert victim.read_bytes() == before
    if plant is not _lock:
        assert len(read_history(run)) == 4
        assert not any(path.is_symlink() for path in run.rglob("*"))


def test_measurements_are_written_through_no_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (run / "flatness").symlink_to(tmp_path / "elsewhere")
    for command in ("flatness", "landscape"):
        refused(flatfed(command, run, *OPENING[command]), "flatness is a link")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_report_is_written_through_no_link(comparison: Path, victim: Path) -> None:
    names = ("report.md", "results.csv", "results.json")
    for name in names:
        (comparison / name).unlink()
        (comparison / name).symlink_to(victim)
    assert flatfed("resume", comparison).code == 0
    assert victim.read_text() == "dear reader\n"
    assert not any((comparison / name).is_symlink() for name in names)


def test_a_figure_is_written_through_no_link(run: Path, victim: Path) -> None:
    Path("figure.svg").symlink_to(victim)
    assert flatfed("show", run, "--figure", "figure.svg").code == 0
    assert victim.read_text() == "dear reader\n"
    assert "<svg" in Path("figure.svg").read_text()


def test_checkpoints_are_read_through_no_link_that_leads_out(run: Path, tmp_path: Path) -> None:
    newest = max((run / "checkpoints").glob("round-*"))
    (newest / "server.safetensors").rename(tmp_path / "secret")
    (newest / "server.safetensors").symlink_to(tmp_path / "secret")
    refused(flatfed("flatness", newest, *OPENING["flatness"]), "server.safetensors is a link that leads out of")
    (run / "checkpoints").rename(tmp_path / "all")
    (run / "checkpoints").symlink_to(tmp_path / "all")
    outcome = flatfed("evaluate", run)
    assert outcome.code == 2 and "is a link that leads out of" in outcome.err


def test_a_run_may_be_reached_by_a_link(run: Path) -> None:
    Path("short").symlink_to(run)
    assert flatfed("resume", "short", "--rounds", 4).code == 0
    assert len(read_history(run)) == 4
