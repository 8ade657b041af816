"""Write how long every preset takes at small scale into docs/hours.md, from docs/hours.json (docs/measure_hours.py)."""

import json
from pathlib import Path
from typing import Any

from written_part import WrittenPart

HERE = Path(__file__).parent
PAGE, FILE = HERE / "hours.md", HERE / "hours.json"


def hours(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def row(id: str, found: dict[str, Any]) -> str:
    """Return the row of one preset."""
    if found["mistakes"]:
        return f"| `{id}` | {found['cells']} | not checked: its data are not on that machine | – | – |"
    measuring = hours(found["measuring"]) if found["measuring"] else "–"
    left_out = ", ".join(found["not included"]) or "–"
    return f"| `{id}` | {found['cells']} | {hours(found['seconds'])} | {measuring} | {left_out} |"


def table() -> str:
    """Return what was measured where, and the table."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    presets: dict[str, dict[str, Any]] = content["presets"]
    dates = sorted({found["date"] for found in presets.values()})
    where = f"Checked on {content['machine']}; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}."
    head = ["| preset | cells | takes | of it to measure | not included |", "|---|--:|--:|--:|---|"]
    return "\n".join([where, "", *head, *(row(id, found) for id, found in presets.items())])


PART = WrittenPart(PAGE, "hours", "docs/write_hours.py", table)

if __name__ == "__main__":
    PART.main()
