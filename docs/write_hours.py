"""Write how long every preset takes at small scale into docs/hours.md, from docs/hours.json (docs/measure_hours.py)."""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE, FILE = HERE / "hours.md", HERE / "hours.json"
BEGIN, END = "<!-- hours: made by docs/write_hours.py -->\n", "<!-- end of hours -->"


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


def with_table(text: str) -> str:
    """Return the page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    now = PAGE.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if with_table(now) == now else "the table is out of date; run docs/write_hours.py")
    PAGE.write_text(with_table(now), encoding="utf-8")
