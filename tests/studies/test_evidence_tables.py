"""Tables of the evidence: what stands beside a number, and what does not where runs are missing or diverged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flatfed.published.claims.claim_file import settings as claim_settings
from flatfed.published.claims.printed import printed_values
from flatfed.reports.figures.comparisons.printed_ends import EndPoint
from flatfed.studies.evidence.about import AddedPart
from flatfed.studies.evidence.claim_rows import claim_table
from flatfed.studies.evidence.ledger_page import ledger_page, tabled_points
from flatfed.studies.evidence.make_pages import Evidence
from flatfed.studies.evidence.page_differences import page_differences
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
pairs:
  - method: FedSAM
    page: fedsam
    paper: fedavg
    code: fedsam
    differs: what or why
    paper side: a poster | ours
    code side: code of others
    points: [Its step]
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
    side = {"fedavg": "paper side", "fedsam": "code side"}[method]
    assert f"| the {side} diverges in 1 of 3 seeds |" in line


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


def test_what_a_table_marks_as_failed_is_said() -> None:
    (failed,) = printed_values("fedgf", claim_settings()["cifar10-0"], "scaffold", "accuracy")
    assert printed_text([failed]) == "diverged (Table 1)"


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
    assert "the paper side in one row and the code side in another" in pages["ledger.md"]
    assert "– not run yet, not measured, or a side diverged" in pages["ledger.md"]


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
    said = "the paper side does not learn in 3 of 3 seeds; the code side does not learn in 3 of 3 seeds"
    assert f"| {said} | 10.00 ± 0.00 ‡ | 10.10 ± 0.00 ‡ |" in ledger_page([study], "")


def ledger_rows(study: PublishedStudy, forms: dict[str, list[float]]) -> list[str]:
    """Return the ledger's rows, name and effect, of forms beside a FedAvg with half of all right."""
    (first,) = study.about.pairs
    pairs = tuple(replace(first, code=name, differs=f"row {name}") for name in forms)
    methods = {**study.study.methods, **dict.fromkeys(forms, "fedsam")}
    settings = {SKEWED: study.study.settings[SKEWED]}
    asked = replace(study.study, methods=methods, settings=settings)
    more = replace(study, about=replace(study.about, pairs=pairs), study=asked)
    for name, values in {"fedavg": [0.5, 0.5, 0.5], **forms}.items():
        ended = dict.fromkeys(range(len(values), 3), "waiting")
        more.table.entries[SKEWED, name] = Entry(SKEWED, name, dict(enumerate(values)), ended=ended)
    rows = [line.split(" | ") for line in ledger_page([more], "").splitlines() if "| row " in line]
    return [f"{row[1].removeprefix('row ')}: {row[4]}" for row in rows]


def test_the_ledger_sorts_its_rows_by_the_size_of_the_effect(evidence: Evidence) -> None:
    forms = {
        "none": [],
        "small": [0.51, 0.51, 0.51],
        "chance": [0.1, 0.1, 0.1],
        "large down": [0.3, 0.3, 0.3],
        "one seed": [0.9],
        "middle": [0.6, 0.6, 0.6],
    }
    assert ledger_rows(evidence.studies[0], forms) == [
        "large down: −20.00 [−20.00, −20.00]",
        "middle: +10.00 [+10.00, +10.00]",
        "small: +1.00 [+1.00, +1.00]",
        "chance: the code side does not learn in 3 of 3 seeds",
        "one seed: +40.00 (1 pair)",
        "none: –",
    ]


def test_the_ledger_has_no_effect_where_one_seed_is_at_chance(evidence: Evidence) -> None:
    (row,) = ledger_rows(evidence.studies[0], {"lucky": [0.1, 0.6, 0.9]})
    assert row == "lucky: the code side does not learn in 1 of 3 seeds"


def test_the_ledger_counts_what_is_on_one_side_of_zero(evidence: Evidence) -> None:
    (study,) = evidence.studies
    for name, values in {"fedavg": [0.5, 0.5, 0.5], "fedsam": [0.6, 0.4, 0.6]}.items():
        for setting in study.study.settings:
            study.table.entries[setting, name] = Entry(setting, name, dict(enumerate(values)))
    assert "Both sides learn in 1 of them, and in 0 of these the brackets" in ledger_page([study], "")
    study.table.entries[SKEWED, "fedsam"].values[1] = 0.55
    assert "Both sides learn in 1 of them, and in 1 of these the brackets" in ledger_page([study], "")


def test_the_ledger_says_whose_the_sides_are_and_the_setting(evidence: Evidence) -> None:
    page = ledger_page(evidence.studies, "")
    assert "| [FedSAM](../algorithms/fedsam.md) | what or why | a poster \\| ours | code of others | " in page
    setting = next(line for line in page.splitlines() if line.startswith("**Setting.**"))
    assert "dataset digits" in setting and "rounds 3" in setting and "lr " in setting and "model " in setting


@pytest.mark.parametrize(
    ("point", "group"),
    [
        ("**Clip.** The authors' code clips.", "Code of the authors"),
        ("The released code adds one; FL-Simulator adds two.", "Code of the authors"),
        ("**Clip.** FL-Simulator clips. Here there is none.", "Code of others"),
        ("The FedGF code divides twice.", "Code of others"),
        ("What starts at zero has no code.", "Rules of flatfed"),
        ("**Its step.** The authors' code takes two.", "In the tables above"),
    ],
)
def test_the_ledger_groups_points_by_whose_code_they_name(
    evidence: Evidence, tmp_path: Path, point: str, group: str
) -> None:
    page = "# FedSAM (`fedsam`)\n\n## What differs from the authors' code\n\n{}- {}\n\n## Reference\n\n- no point\n"
    (tmp_path / "fedsam.md").write_text(page.format("", point))
    text = page_differences(tmp_path, tabled_points(evidence.studies))
    assert text.partition("### ")[2].startswith(f"{group}\n")
    assert text.endswith(f"\n\n- [FedSAM](../algorithms/fedsam.md): {point}")
    (tmp_path / "fedsam.md").write_text(page.format("No code was released.\n\n", point))
    unknown = page_differences(tmp_path).partition("### ")[2]
    assert unknown.startswith("No code is known\n")


def test_the_ledger_has_what_several_pages_say_once(tmp_path: Path) -> None:
    for name in ("FedAdam", "FedYogi"):
        text = f"# {name} (`x`)\n\n## What differs from the authors' code\n\n- Weights. See [here](x.md).\n"
        (tmp_path / f"{name.lower()}.md").write_text(text)
    text = page_differences(tmp_path)
    assert "| [Rules of flatfed](#rules-of-flatfed) | 2 | 2 |" in text
    line = "- [FedAdam](../algorithms/fedadam.md), [FedYogi](../algorithms/fedyogi.md): **Weights.** See here."
    assert text.splitlines()[-1] == line and text.count("See here") == 1


def with_finding(study: PublishedStudy, values: list[float]) -> PublishedStudy:
    """Return a study that tells what FedSAM adds to FedAvg, which has half of all right."""
    told = replace(study, about=replace(study.about, finds=(AddedPart("SAM", "fedsam", "fedavg"),)))
    for setting in study.study.settings:
        told.table.entries[setting, "fedavg"] = Entry(setting, "fedavg", dict.fromkeys(range(3), 0.5))
        told.table.entries[setting, "fedsam"] = Entry(setting, "fedsam", dict(enumerate(values)))
    return told


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.6, 0.6, 0.7], "- SAM: +13.33 [+10.00, +20.00] (`fedsam` minus `fedavg`)"),
        ([0.4, 0.4, 0.3], "- SAM: −13.33 [−20.00, −10.00] (`fedsam` minus `fedavg`)"),
    ],
)
def test_the_readme_says_what_a_part_adds(evidence: Evidence, values: list[float], said: str) -> None:
    section = readme_section([with_finding(evidence.studies[0], values)], [])
    assert said in section and "What parts of methods add" in section


def test_the_readme_tells_no_finding_where_a_seed_diverged(evidence: Evidence) -> None:
    study = with_finding(evidence.studies[0], [0.6, 0.6, 0.7])
    for setting in study.study.settings:
        entry = study.table.entry(setting, "fedsam")
        del entry.values[2]
        entry.ended[2] = "diverged"
    assert "What parts of methods add" not in readme_section([study], [])


def test_the_readme_shows_the_study_that_is_meant_for_it_once_it_is_complete(evidence: Evidence) -> None:
    (study,) = evidence.studies
    many = replace(study, study=replace(study.study, methods={**study.study.methods, "again": "fedavg"}))
    for setting in study.study.settings:
        many.table.entries[setting, "again"] = Entry(setting, "again", dict.fromkeys(range(3), 0.5))
    meant = replace(study, name="meant", about=replace(study.about, in_readme=True))
    assert "tiny-" in readme_section([many, study], [])
    assert "meant-" in readme_section([many, meant], [])
    vars(meant)["ended"] = (5, 6)
    assert "tiny-" in readme_section([many, meant], [])


@pytest.mark.parametrize(
    ("by_test", "said"), [(True, "by the test accuracy of a few other runs"), (False, "nothing was searched")]
)
def test_the_readme_says_how_the_learning_rate_was_chosen(evidence: Evidence, by_test: bool, said: str) -> None:
    (study,) = evidence.studies
    assert said in readme_section([replace(study, about=replace(study.about, rate_by_test=by_test))], [])


def test_a_study_at_paper_scale_has_its_limits_once(root: Path, tmp_path: Path) -> None:
    part = copied(root, tmp_path / "part")
    (part / "tiny" / "about.yaml").write_text(ABOUT + "draws printed: true\nlimits: [It says nothing.]\n")
    evidence = Evidence(part, tmp_path / "workplace")
    page = summary_page(evidence.studies, evidence.judged, {})
    assert page.count("It says nothing.") == 1 and page.count("\n## tiny\n") == 1
    assert f"### {SKEWED}, 3 rounds, 3 seeds, beside FedWMSAM" in page and "70.05 (Table 1)" in page


def test_claims_are_counted_by_what_they_are_about(evidence: Evidence) -> None:
    table = summary_page(evidence.studies, evidence.judged, {}).partition("| about | claims |")[2].splitlines()[2:6]
    counts = {line.split(" | ")[0].strip("| "): int(line.split(" | ")[1]) for line in table}
    costs = [one for one in evidence.judged if one.claim.metric in ("bytes_per_round", "backprops", "client_seconds")]
    assert counts["costs of a round"] == len(costs)
    assert sum(counts.values()) == len(evidence.judged)


def test_a_picture_has_the_reference_and_what_the_papers_are_about() -> None:
    best = [*"abcdefgh", "fedgloss, no ADMM", "fedgloss+sam", "fedavg", "fedwmsam"]
    drawn = drawn_methods(best, "fedavg", {"fedgloss": (), "fedwmsam": ()})
    assert drawn == ["fedavg", "fedgloss+sam", "fedwmsam", *"abcdefgh"][:MOST_DRAWN]
