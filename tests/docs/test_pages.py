"""Every method has its page and its row, and the examples run."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from flatfed.algorithms import Algorithm, Average
from flatfed.core.configuration.config import parameters
from methods.table import TABLE

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "algorithms"
METHODS = {
    id: cls for id, cls in (Algorithm.registry | Average.registry).items() if cls.__module__.startswith("flatfed.")
}
SECTIONS = (
    *("Equations", "Symbols and parameters", "Published values", "Traffic and compute"),
    *("What differs from the authors' code", "Identities that hold", "Run it", "Reference"),
)


@pytest.mark.parametrize("id", METHODS)
def test_every_method_has_a_page_with_all_sections_and_parameters(id: str) -> None:
    page = (PAGES / f"{id}.md").read_text(encoding="utf-8")
    for section in SECTIONS:
        assert f"## {section}" in page
    for name in parameters(METHODS[id]):
        assert f"`{name}`" in page, f"{name} is not explained"


def test_the_index_is_the_one_of_the_registry() -> None:
    checked = subprocess.run([sys.executable, str(ROOT / "docs" / "write_index.py"), "--check"], capture_output=True)
    assert checked.returncode == 0, checked.stderr.decode()
    text = (PAGES / "README.md").read_text(encoding="utf-8")
    assert all(f"[`{id}`]({id}.md)" in text for id in METHODS)


def test_methods_without_a_server_rate_are_those_that_have_none() -> None:
    text = " ".join((PAGES / "README.md").read_text(encoding="utf-8").split())
    listed = text.partition("in their own formulas;")[2].partition("have none.")[0]
    ours = {id: cls for id, cls in Algorithm.registry.items() if cls.__module__.startswith("flatfed.")}
    assert set(listed.split("`")[1::2]) == {id for id, cls in ours.items() if "server_lr" not in parameters(cls)}


def test_every_algorithm_has_a_row_in_the_shared_table() -> None:
    ours = {id for id, cls in Algorithm.registry.items() if cls.__module__.startswith("flatfed.")}
    assert ours <= {row.id for row in TABLE}


def test_the_example_with_an_own_model_learns(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "examples" / "own_model_and_data.py"), run_name="__main__")
    accuracy = float(capsys.readouterr().out.split()[1].rstrip(","))
    assert accuracy > 0.8


def test_importing_the_package_does_not_import_torch() -> None:
    code = "import sys, flatfed, flatfed.cli.main; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_public_names_are_there() -> None:
    import flatfed as ff

    for name in dir(ff):
        assert getattr(ff, name) is not None
    assert {"Task", "train", "resume", "make", "SAM", "SWA", "FedGloSS", "Bernoulli", "Schedule"} <= set(dir(ff))
    with pytest.raises(AttributeError, match="no attribute 'FedNothing'"):
        _ = ff.FedNothing
