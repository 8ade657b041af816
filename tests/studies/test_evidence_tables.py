"""Tables of the evidence: what stands beside a number, and what does not where runs are missing or diverged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flatfed.published.claims.claim_file import settings as claim_settings
from flatfed.published.claims.printed import printed_values
from flatfed.reports.figures.comparisons.printed_ends import EndPoint
from flatfed.studies.evidence.choosing_page import Ranked, choosing_page, named_best
from flatfed.studies.evidence.claim_rows import claim_table
from flatfed.studies.evidence.ledger_page import ledger_page
from flatfed.studies.evidence.make_pages import Evidence
from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.evidence.sections.beside_papers import printed_text
from flatfed.studies.evidence.sections.chance import chance_mark, chance_note
from flatfed.studies.evidence.sections.curve_ends import printed_ends
from flatfed.studies.evidence.sections.setting_table import setting_table, target_words
from flatfed.studies.evidence.sections.study_section import MOST_DRAWN, drawn_methods, paragraph
from flatfed.studies.evidence.summary_page import readme_section, summary_page
from flatfed.studies.results import Entry
from flatfed.studies.run_study import RunningStudy
from studies.evidence_bench import cells, copied, publish

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


def without(root: Path, to: Path, method: str, seed: int) -> Evidence:
    """Return the evidence without the runs of a method with a seed."""
    part = copied(root, to / "part")
    for file in part.glob(f"tiny/results/cells/*/{method}/seed-{seed}.json"):
        file.unlink()
    return Evidence(part, to / "workplace")


def let_diverge(study: PublishedStudy, method: str, seed: int) -> None:
    """Take a run for one that diverged, as soon as a study is opened."""
    for setting in study.study.settings:
        entry = study.table.entry(setting, method)
        del entry.values[seed]
        entry.ended[seed] = "diverged"


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
    # The paper prints the concentration of each of ten classes.
    assert "- split" not in pages["fedgf.md"]


def test_curves_are_drawn_beside_the_papers_end_points_where_a_study_says_so(root: Path, tmp_path: Path) -> None:
    part = copied(root, tmp_path / "part")
    (part / "tiny" / "about.yaml").write_text(ABOUT + "draws printed: true\n")
    evidence = Evidence(part, tmp_path / "workplace")
    (study,) = evidence.studies
    mean = study.table.entry(SKEWED, "fedavg").mean
    assert mean is not None
    assert EndPoint("fedavg", 500, 70.05, 100 * mean) in printed_ends(study, SKEWED, "fedwmsam")
    name = "tiny--ends-skewed-fedwmsam.png"
    assert name in evidence.pages()["fedwmsam.md"]
    # The summary has its numbers too, of which no claim is judged.
    summary = evidence.pages()["README.md"].partition("## tiny")[2]
    assert name in summary and "| fedavg |" in summary
    assert tmp_path / "pictures" / name in evidence.draw(tmp_path / "pictures")


def test_other_studies_are_drawn_by_themselves(evidence: Evidence, tmp_path: Path) -> None:
    assert "--ends" not in evidence.pages()["fedwmsam.md"]
    assert not [file for file in evidence.draw(tmp_path / "pictures") if "--ends" in file.name]


def test_a_difference_over_fewer_seeds_says_over_how_many(root: Path, tmp_path: Path) -> None:
    evidence = without(root, tmp_path, "fedsam", 2)
    text = cells(setting_table(evidence.studies[0], SKEWED), "fedsam")["minus fedavg"]
    assert text.endswith(" (2 pairs)")
    line = next(line for line in evidence.pages()["ledger.md"].splitlines() if "what or why" in line)
    assert " (2 pairs) |" in line


def test_a_difference_over_all_seeds_stands_alone(evidence: Evidence) -> None:
    text = cells(setting_table(evidence.studies[0], SKEWED), "fedsam")["minus fedavg"]
    assert text.endswith("]")


@pytest.mark.parametrize("method", ["fedavg", "fedsam"])
def test_where_a_seed_diverged_there_is_no_difference(evidence: Evidence, method: str) -> None:
    (study,) = evidence.studies
    let_diverge(study, method, 1)
    table = setting_table(study, SKEWED)
    assert cells(table, method)["test accuracy in %"] == "✗ 1 of 3 seeds" and "minus fedavg" not in table
    line = next(line for line in evidence.pages()["ledger.md"].splitlines() if "what or why" in line)
    assert "[" not in line.replace("[FedSAM]", "")


def test_costs_stand_there_when_all_seeds_have_ended(root: Path, tmp_path: Path) -> None:
    table = setting_table(without(root, tmp_path, "fedsam", 2).studies[0], SKEWED)
    assert cells(table, "fedavg")["rounds to target"] != "–" and cells(table, "fedavg")["traffic to target"] != "–"
    assert cells(table, "fedsam")["rounds to target"] == "–" and cells(table, "fedsam")["traffic to target"] == "–"


def test_costs_per_round_are_of_the_seeds_that_both_have(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    (study,) = evidence.studies
    counts = {
        (SKEWED, "fedavg"): {0: 1.0, 1: 2.0, 2: 90.0},
        (SKEWED, "fedsam"): {0: 4.0, 1: 5.0, 2: 90.0},
    }
    monkeypatch.setattr(study.numbers, "of", lambda metric: counts)
    let_diverge(study, "fedavg", 2)
    assert cells(setting_table(study, SKEWED), "fedsam")["passes per round, x fedavg"] == "3.00"
    del counts[SKEWED, "fedsam"][0]
    assert cells(setting_table(study, SKEWED), "fedsam")["passes per round, x fedavg"] == "2.50"


def few_rounds(study: PublishedStudy) -> str:
    """Return the part of the page for those who want few rounds."""
    return choosing_page([study]).partition("## Few rounds")[2].partition("## ")[0]


def test_a_method_that_reached_the_target_is_named_with_it(evidence: Evidence) -> None:
    assert f"| tiny | {SKEWED} | 1.00 % | **fed" in few_rounds(evidence.studies[0])


def test_forms_of_one_method_are_no_choice_of_a_method(evidence: Evidence) -> None:
    (study,) = evidence.studies
    forms = replace(study.study, methods={"fedavg": "fedsam(rho=0.1)", "fedsam": "fedsam(rho=0.2)"})
    assert "tiny" not in choosing_page([replace(study, study=forms)])


def test_methods_that_cost_the_same_are_all_named_as_best() -> None:
    two = [Ranked("fedavg", 20.0, "20 ± 3"), Ranked("fedsam", 20.0, "20 ± 1"), Ranked("fedgf", 30.0, "30 ± 2")]
    assert named_best(two) == ["**fedavg: 20 ± 3**; **fedsam: 20 ± 1**", "fedgf: 30 ± 2"]
    last = [Ranked(name, 30.0, "30 ± 2") for name in ("feddyn", "fedprox")]
    assert named_best([*two, *last])[1] == "fedgf: 30 ± 2; feddyn: 30 ± 2; fedprox: 30 ± 2"
    assert named_best(two[:2]) == ["**fedavg: 20 ± 3**; **fedsam: 20 ± 1**", "–"]


def test_what_a_table_marks_as_failed_is_said() -> None:
    (failed,) = printed_values("fedgf", claim_settings()["cifar10-0"], "scaffold", "accuracy")
    assert printed_text([failed]) == "diverged (Table 1)"


def test_one_lucky_evaluation_does_not_reach_a_target(evidence: Evidence) -> None:
    (study,) = evidence.studies
    study.table.entry(SKEWED, "fedsam").values.update({0: 0.009, 1: 0.009, 2: 0.009})
    assert f"| {SKEWED} |" not in few_rounds(study) and f"| {NEARLY_IID} |" in few_rounds(study)


def test_all_seeds_of_the_study_must_have_reached_a_target(evidence: Evidence) -> None:
    (study,) = evidence.studies
    assert "| tiny |" not in few_rounds(replace(study, study=replace(study.study, seeds=(0, 1, 2, 3))))


def test_a_method_with_a_seed_that_diverged_reaches_no_target(evidence: Evidence) -> None:
    (study,) = evidence.studies
    let_diverge(study, "fedsam", 1)
    assert "| tiny |" not in few_rounds(study)


def test_a_page_says_what_the_target_is(evidence: Evidence) -> None:
    assert "Target: 1.00 %, reached in the first evaluated round" in evidence.pages()["fedgf.md"]
    (study,) = evidence.studies
    asked = replace(study.study, report=replace(study.study.report, targets="reference"))
    other = replace(study, study=asked, running=RunningStudy(asked, study.running.folder.path))
    assert target_words(other) == "the mean of fedavg"


def test_the_best_is_named_where_there_are_two(evidence: Evidence, root: Path, tmp_path: Path) -> None:
    (study,) = evidence.studies
    assert "the best is" in paragraph(study, []) and "**" in setting_table(study, SKEWED)
    (study,) = without(root, tmp_path / "one", "fedsam", 2).studies
    assert "the best is" not in paragraph(study, []) and "**" not in setting_table(study, SKEWED)


def test_the_readme_shows_the_setting_with_the_most_methods(evidence: Evidence) -> None:
    (study,) = evidence.studies
    more = replace(study, study=replace(study.study, methods={**study.study.methods, "again": "fedavg"}))
    for setting in study.study.settings:
        entry = Entry(setting, "again", dict(study.table.entry(setting, "fedavg").values))
        more.table.entries[setting, "again"] = entry
    assert f"tiny-{NEARLY_IID}.png" in readme_section([study], [])
    assert f"tiny-{NEARLY_IID}.png" in readme_section([more], [])
    more.table.entry(NEARLY_IID, "again").ended[2] = "waiting"
    assert f"tiny-{SKEWED}.png" in readme_section([more], [])


@pytest.mark.parametrize(
    ("left_out", "shown"),
    [
        ("That the norm grows.", "; not judged: that the norm grows |"),
        # A name keeps its letters.
        ("SAM without momentum (74.30).", "; not judged: SAM without momentum (74.30) |"),
        ("FedSAM in three settings.", "; not judged: FedSAM in three settings |"),
    ],
)
def test_a_row_says_what_of_a_claim_is_not_judged(evidence: Evidence, left_out: str, shown: str) -> None:
    one = evidence.judged[0]
    assert shown in claim_table([replace(one, claim=replace(one.claim, left_out=left_out))])
    assert "not judged" not in claim_table([replace(one, claim=replace(one.claim, left_out=""))])


def test_words_on_pages_say_what_is_so(evidence: Evidence) -> None:
    pages = {name: " ".join(text.split()) for name, text in evidence.pages().items()}
    assert "It does not hold if at least one interval lies wholly on the other side." in pages["README.md"]
    assert "the paper's form in one row and the code's form in another" in pages["ledger.md"]
    assert "– not run yet, or a form diverged" in pages["ledger.md"]
    assert "the papers' values but for the learning rate" in pages["ledger.md"]


@pytest.mark.parametrize(
    ("values", "mark"),
    [
        ([0.1, 0.1, 0.1], " ‡"),
        ([0.105, 0.02, 0.1], " ‡"),
        ([0.5, 0.1, 0.6], " ‡ 1 of 3 seeds"),
        ([0.106, 0.5, 0.6], ""),
    ],
)
def test_runs_at_chance_are_marked(evidence: Evidence, values: list[float], mark: str) -> None:
    """Ten digits: guessing has 10 %."""
    (study,) = evidence.studies
    entry = Entry(SKEWED, "fedsam", dict(enumerate(values)))
    assert chance_mark(study, entry) == mark
    study.table.entries[SKEWED, "fedsam"] = entry
    shown = cells(setting_table(study, SKEWED), "fedsam")["test accuracy in %"]
    assert shown.endswith(f"{mark}") and ("‡" in shown) == bool(mark)
    assert ("above chance" in chance_note(study)) == bool(mark)


def test_the_best_of_a_table_at_chance_is_marked_too(evidence: Evidence) -> None:
    (study,) = evidence.studies
    for method, value in {"fedavg": 0.1, "fedsam": 0.101}.items():
        values = dict.fromkeys(range(3), value)
        study.table.entries[SKEWED, method] = Entry(SKEWED, method, values, best=method == "fedsam")
    assert cells(setting_table(study, SKEWED), "fedsam")["test accuracy in %"] == "**10.10 ± 0.00** ‡"
    assert "in 1 of these a seed of one form or the other stayed at chance" in ledger_page([study], "")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.6, 0.6, 0.7], "above zero: `fedsam` +13.33"),
        ([0.4, 0.4, 0.3], "below zero: `fedsam` −13.33"),
        ([0.6, 0.4, 0.5], "neither: `fedsam` 0.00"),
        ([0.1, 0.1, 0.1], "below zero: `fedsam` −40.00 ‡"),
    ],
)
def test_the_readme_says_who_is_above_the_reference(evidence: Evidence, values: list[float], said: str) -> None:
    (study,) = evidence.studies
    for setting in study.study.settings:
        study.table.entries[setting, "fedavg"] = Entry(setting, "fedavg", dict.fromkeys(range(3), 0.5))
        study.table.entries[setting, "fedsam"] = Entry(setting, "fedsam", dict(enumerate(values)))
    assert said in readme_section([study], [])


def test_the_readme_compares_with_nothing_that_diverged(evidence: Evidence) -> None:
    (study,) = evidence.studies
    more = replace(study, study=replace(study.study, methods={**study.study.methods, "again": "fedavg"}))
    for setting in study.study.settings:
        more.table.entries[setting, "again"] = Entry(setting, "again", dict.fromkeys(range(3), 0.5))
    let_diverge(more, "fedavg", 1)
    assert "minus that of" not in readme_section([more], [])


def test_a_study_at_paper_scale_has_its_limits_once(root: Path, tmp_path: Path) -> None:
    part = copied(root, tmp_path / "part")
    (part / "tiny" / "about.yaml").write_text(ABOUT + "draws printed: true\nlimits: [It says nothing.]\n")
    evidence = Evidence(part, tmp_path / "workplace")
    page = summary_page(evidence.studies, evidence.judged)
    assert page.count("It says nothing.") == 1 and page.count("\n## tiny\n") == 1
    assert f"### {SKEWED}, 3 rounds, 3 seeds, beside FedWMSAM" in page and "70.05 (Table 1)" in page


def test_claims_are_counted_by_what_they_are_about(evidence: Evidence) -> None:
    table = summary_page(evidence.studies, evidence.judged).partition("| about | claims |")[2].splitlines()[2:6]
    counts = {line.split(" | ")[0].strip("| "): int(line.split(" | ")[1]) for line in table}
    costs = [one for one in evidence.judged if one.claim.metric in ("bytes_per_round", "backprops", "client_seconds")]
    assert counts["costs of a round"] == len(costs)
    assert sum(counts.values()) == len(evidence.judged)


def test_a_picture_has_the_reference_and_what_the_papers_are_about() -> None:
    best = [*"abcdefgh", "fedgloss, no ADMM", "fedgloss+sam", "fedavg", "fedwmsam"]
    drawn = drawn_methods(best, "fedavg", {"fedgloss": (), "fedwmsam": ()})
    assert drawn == ["fedavg", "fedgloss+sam", "fedwmsam", *"abcdefgh"][:MOST_DRAWN]
