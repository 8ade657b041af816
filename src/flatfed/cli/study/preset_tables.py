"""Presets for people: a list of them, and one as a file to be edited."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flatfed.cli.data.tables import print_table
from flatfed.cli.output.streams import echo

if TYPE_CHECKING:
    from flatfed.studies.presets import Preset, Scale

WIDTH = 100


def listed(preset: Preset) -> dict[str, Any]:
    """Return what a list says of a preset, ready for JSON."""
    return {
        "id": preset.id,
        "source": preset.source,
        "shows": preset.shows,
        "scales": list(preset.scales),
        "nothing to run": preset.nothing,
        "small differs": "" if preset.nothing else preset.differences("small"),
        "not stated": list(preset.not_stated),
    }


def print_presets(presets: Sequence[Preset]) -> None:
    """Print a line for each preset."""
    rows = []
    for preset in presets:
        how = ", ".join(preset.scales) or f"nothing to run: {preset.nothing}"
        rows.append([preset.id, preset.shows, how])
    print_table(["id", "shows", "scales"], rows, {})
    echo("run one with: flatfed study run fedgloss/table-3 --scale small")


def preset_text(preset: Preset, scale: Scale) -> str:
    """Return the study of a preset as the text of a file, with what is to be known of it in front."""
    import yaml

    class Plain(yaml.SafeDumper):
        """Writes out what several places share: files of studies take no aliases."""

        def ignore_aliases(self, data: Any) -> bool:
            """Take nothing for shared."""
            return True

    remarks = [f"{preset.title(scale)} ({preset.source})."]
    if preset.differences(scale):
        remarks.append(f"Differs from the paper: {preset.differences(scale)}.")
    remarks += [f"Not stated: {sentence}" for sentence in preset.not_stated]
    lines = [line for remark in remarks for line in textwrap.wrap(remark, WIDTH)]
    head = "".join(f"# {line}\n" for line in lines)
    body: str = yaml.dump(preset.content(scale), Dumper=Plain, sort_keys=False, allow_unicode=True, width=WIDTH)
    return f"{head}\n{body}"
