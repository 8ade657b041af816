"""The tables and figures of five papers as studies that are ready to run."""

from flatfed.studies.presets.preset import SCALES, Preset, Scale, scale_named
from flatfed.studies.presets.preset_files import find_preset, is_preset, paper_names, presets_of, read_presets

__all__ = [
    "SCALES",
    "Preset",
    "Scale",
    "find_preset",
    "is_preset",
    "paper_names",
    "presets_of",
    "read_presets",
    "scale_named",
]
