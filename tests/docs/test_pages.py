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


def test_the_sketch_in_contributing_is_a_method_that_works() -> None:
    import torch
    from torch import nn

    import flatfed as ff

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    names: dict[str, object] = {"__name__": "contributing"}
    known = dict(Algorithm.registry)
    sys.modules["contributing"] = type(sys)("contributing")
    sys.modules["contributing"].__dict__.update(names)
    try:
        exec(compile(code, "CONTRIBUTING.md", "exec"), sys.modules["contributing"].__dict__)
        generator = torch.Generator().manual_seed(0)
        data = [
            (torch.randn(n, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)) for n in (5, 9, 7)
        ]
        task = ff.Task(nn.Linear(4, 3), data)
        settings = {"rounds": 4, "sampling": 2, "lr": 0.1, "batch_size": 4, "dtype": torch.float64}
        runs = [ff.train(task, ff.make("fedpull"), **settings, workers=workers) for workers in (0, 2)]
        assert torch.equal(runs[0].vector, runs[1].vector)
        plain = ff.train(task, ff.make("fedavg"), **settings, weighting="uniform", workers=0)
        fresh_only = ff.train(task, ff.make("fedpull", alpha=1.0), **settings, workers=0)
        torch.testing.assert_close(fresh_only.vector, plain.vector)
        assert not torch.allclose(runs[0].vector, plain.vector)
        shipped = ff.train(task, ff.make("fedcm"), **settings, workers=0)
        assert torch.equal(runs[0].vector, shipped.vector)
    finally:
        Algorithm.registry.clear()
        Algorithm.registry.update(known)
        del sys.modules["contributing"]
