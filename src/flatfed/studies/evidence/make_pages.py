"""All pages of the evidence by their names, and its pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flatfed.core.errors import ConfigError
from flatfed.published.claims import claims
from flatfed.published.numbers import papers
from flatfed.reports.figures.comparisons.cost_curves import draw_cost_curves
from flatfed.reports.figures.comparisons.printed_ends import draw_printed_ends
from flatfed.reports.figures.lines import draw_lines
from flatfed.studies.evidence.about import read_cannot_run
from flatfed.studies.evidence.choosing_page import choosing_page
from flatfed.studies.evidence.claim_rows import claim_notes, claim_table, comparisons_part
from flatfed.studies.evidence.joint_judge import JointJudge, JudgedClaim
from flatfed.studies.evidence.ledger_page import ledger_page, tabled_points
from flatfed.studies.evidence.page_differences import page_differences
from flatfed.studies.evidence.published_study import PublishedStudy, open_studies
from flatfed.studies.evidence.sections.barriers import drawn_lines
from flatfed.studies.evidence.sections.curve_ends import printed_ends
from flatfed.studies.evidence.sections.picture_files import ends_picture_name, line_picture_name, picture_name
from flatfed.studies.evidence.sections.study_section import drawn_results, is_drawn, legend, study_section
from flatfed.studies.evidence.summary_page import counts_text, name, readme_section, summary_page

COLOURS = 128
"""Of a picture on a page: lines, bands and letters need no more."""


class Evidence:
    """The studies of a repository, opened once.

    Args:
        root: the folder of the studies.
        workplace: where results are unpacked; what is there is of no further use.
        methods: the folder of the pages of methods, for the differences that they name; None is none.
    """

    def __init__(self, root: Path, workplace: Path, methods: Path | None = None) -> None:
        self._methods = methods
        self.studies: Sequence[PublishedStudy] = open_studies(root, workplace)
        self.cannot_run: Mapping[str, str] = read_cannot_run(root)
        judge = JointJudge(self.studies)
        self.judged: Sequence[JudgedClaim] = [judge.judge(claim) for claim in claims()]

    def pages(self) -> dict[str, str]:
        """Return the text of each page by its file's name."""
        pages = {"README.md": summary_page(self.studies, self.judged, self.cannot_run)}
        pages |= {f"{paper}.md": self._of_paper(paper) for paper in papers()}
        differences = "" if self._methods is None else page_differences(self._methods, tabled_points(self.studies))
        ledger = ledger_page(self.studies, differences)
        return pages | {"ledger.md": ledger, "choosing.md": choosing_page(self.studies)}

    def readme(self) -> str:
        """Return what the README says of it; nothing where no comparison is complete."""
        return readme_section(self.studies, self.judged)

    def _of_paper(self, paper: str) -> str:
        judged = [one for one in self.judged if one.claim.paper == paper]
        studies = [study for study in self.studies if paper in study.about.differences]
        studies.sort(key=_place)
        parts = [f"# Evidence on {name(paper)}"]
        parts.append(
            f"{papers()[paper].title}. What it shows as studies: [its page](../papers/{paper}.md); all evidence: "
            f"[summary](README.md). {counts_text(judged)}"
        )
        parts += ["## Claims", claim_table(judged), claim_notes("README.md"), comparisons_part(judged)]
        parts += [legend(studies)] if studies else ["No study is about this paper yet."]
        parts += [study_section(study, paper, judged) for study in studies]
        return "\n\n".join(filter(None, parts)) + "\n"

    def draw(self, folder: Path) -> list[Path]:
        """Draw the pictures of all settings that have a run, and return their files."""
        folder.mkdir(parents=True, exist_ok=True)
        drawn = []
        for study in self.studies:
            for setting in study.study.settings:
                file = folder / picture_name(study, setting)
                metric = study.table.metrics.get(setting)
                if not is_drawn(study, setting) or metric is None:
                    continue
                try:
                    draw_cost_curves(drawn_results(study, setting), [file], metric.column, study.study.title)
                    make_small(file)
                except ConfigError:
                    # Nothing finite: the page says that all diverged.
                    continue
                drawn.append(file)
                drawn += _draw_lines(study, setting, folder)
                drawn += _draw_ends(study, setting, folder)
        return drawn


def _place(study: PublishedStudy) -> tuple[bool, bool, bool]:
    """Return what decides where a study stands on a page: complete ones come first, what was not begun last."""
    ended, total = study.ended
    return ended == 0, ended < total, not study.about.in_readme


def _draw_lines(study: PublishedStudy, setting: str, folder: Path) -> list[Path]:
    """Draw the loss between models of a setting, and return the files."""
    files = []
    for first in drawn_lines(study, setting):
        file = folder / line_picture_name(study, first)
        draw_lines(first.lines, [file], f"{study.study.title}, seed {first.seed}")
        make_small(file)
        files.append(file)
    return files


def _draw_ends(study: PublishedStudy, setting: str, folder: Path) -> list[Path]:
    """Draw the curves of a setting beside the end points of each paper, and return the files."""
    files = []
    for paper in study.about.differences:
        ends = printed_ends(study, setting, paper)
        if ends:
            file = folder / ends_picture_name(study, setting, paper)
            column = study.table.metrics[setting].column
            draw_printed_ends(drawn_results(study, setting), ends, [file], column, f"Beside {name(paper)}'s end points")
            make_small(file)
            files.append(file)
    return files


def make_small(file: Path) -> None:
    """Write a picture anew for a page: half as many dots, and few colours."""
    from PIL import Image

    with Image.open(file) as picture:
        smaller = picture.convert("RGB").resize((picture.width // 2, picture.height // 2), Image.Resampling.LANCZOS)
    smaller.quantize(COLOURS).save(file, optimize=True)
