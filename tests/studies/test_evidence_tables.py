"""Tables of the evidence: what stands beside a number, and what does not where runs are missing or diverged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flatfed.studies.evidence.make_pages import Evidence
from flatfed.studies.evidence.setting_table import setting_table
from studies.evidence_bench import cells, publish

NEARLY_IID, SKEWED = "cifar10-100", "skewed"
STUDY: dict[str, Any] = {
    "rounds": 3,
    "clients": 100,
    "checkpoint_every": 3,
    "methods": ["fedavg", "fedsam"],
    "settings": {
        NEARLY_IID: {"alpha": 100, "per_round": 5},
        SKEWED: {"beta": 0.1, "per_round": 10, "local_epochs": 5},
    },
    "seeds": [0, 1, 2],
    "report": {"reference": "fedavg", "targets": [1]},
}
ABOUT = f"""
question: Does it work?
papers: {{fedwmsam: [It is tiny.], fedgf: [It is tiny.]}}
stands for: {{cifar10-timed: {SKEWED}, cifar10-beta-0.1: {SKEWED}, cifar10-0-ten: {SKEWED}, cifar10-10: {NEARLY_IID}}}
pairs: [{{method: FedSAM, page: fedsam, paper: fedavg, code: fedsam, differs: what or why}}]
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish(tmp_path_factory.mktemp("tables"), STUDY, ABOUT)


@pytest.fixture
def evidence(root: Path, tmp_path: Path) -> Evidence:
    return Evidence(root, tmp_path)


def test_printed_numbers_are_those_of_the_same_split_clients_and_epochs(evidence: Evidence) -> None:
    (study,) = evidence.studies
    # Other splits, epochs and numbers of clients have twelve more.
    assert cells(setting_table(study, SKEWED, "fedwmsam"), "fedavg")["published"] == "70.05 (Table 1)"
    # The paper has ten clients of a hundred with one local epoch.
    assert "published" not in setting_table(study, SKEWED, "fedsam")


def test_a_page_says_in_what_the_shown_numbers_differ(evidence: Evidence) -> None:
    pages = evidence.pages()
    assert "- rounds: 500 in the paper, 3 here" in pages["fedwmsam.md"]
    assert "- clients" not in pages["fedwmsam.md"] and "- local epochs" not in pages["fedwmsam.md"]
    assert "82.90 (Table 1)" in pages["fedgf.md"]
    assert "- split: dirichlet 10 in the paper, dirichlet 100 here" in pages["fedgf.md"]
