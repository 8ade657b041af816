"""What the pictures of a page are called, and where they lie."""

from __future__ import annotations

from pathlib import PurePosixPath

from flatfed.studies.evidence.published_study import PublishedStudy
from flatfed.studies.packing.packed_lines import LinesOfSeed
from flatfed.studies.reporting.study_runs import setting_name

PICTURES = PurePosixPath("../pictures/evidence")


def picture_name(study: PublishedStudy, setting: str) -> str:
    """Return the file of a setting's picture."""
    return _plain(f"{study.name}-{setting_name(setting)}")


def line_picture_name(study: PublishedStudy, of_seed: LinesOfSeed) -> str:
    """Return the file of a picture of the loss between models."""
    # Two dashes, which no setting begins with: its curves have another file.
    return _plain(f"{study.name}--{of_seed.name}")


def ends_picture_name(study: PublishedStudy, setting: str, paper: str) -> str:
    """Return the file of a picture of curves beside a paper's end points."""
    return _plain(f"{study.name}--ends-{setting_name(setting)}-{paper}")


def _plain(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in text) + ".png"
