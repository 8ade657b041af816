"""A table of three made-up hospitals: two methods compared, and a prediction for a patient who comes later.

    python hospitals_table.py [FOLDER]

No number here comes from a person.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import flatfed as ff

ROWS = 600


def write_table(path: Path) -> None:
    """Write patients with numbers, categories and missing values; how long they stay follows from them."""
    draw = random.Random(7)
    lines = ["age;sex;ward;bmi;days;hospital"]
    for _ in range(ROWS):
        hospital = draw.choice("abc")
        age = draw.gauss({"a": 50, "b": 68, "c": 31}[hospital], 12)
        sex, ward = draw.choice("fm"), draw.choice(["surgery", "heart", "general"])
        bmi = draw.gauss(26, 4)
        days = 2 + age / 15 + 3 * (ward == "heart") + abs(bmi - 24) / 4 + draw.gauss(0, 0.5)
        cells = [f"{age:.0f}", sex, ward, f"{bmi:.1f}", f"{days:.1f}", hospital]
        if draw.random() < 0.05:
            cells[draw.choice([2, 3])] = ""
        lines.append(";".join(cells).replace(".", ","))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(folder: Path) -> None:
    """Compare, and predict."""
    table = folder / "hospitals.csv"
    write_table(table)
    compared = ff.compare(
        "table",
        ["fedavg", "scaffold"],
        folder / "compared",
        data={"path": table, "target": "days", "client": "hospital", "missing": "mean"},
        seeds=[0, 1],
        rounds=20,
        per_round=3,
        lr=0.05,
        batch_size=16,
        set={"model.hidden": "32,16"},
        workers=0,
    )
    print(compared.table())
    run = compared.run("scaffold")
    assert run.preprocessing is not None
    patient = {"age": 74, "sex": "f", "ward": "heart", "bmi": None}
    days = run.preprocessing.outputs(run.model()(run.preprocessing.inputs([patient])))
    print(f"days {days[0]:.1f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
