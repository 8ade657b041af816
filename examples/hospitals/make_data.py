"""Write the tables of three hospitals that do not exist: made-up patients, for trying a federation.

    python make_data.py [FOLDER]

No number here comes from a person. A patient's risk (low, medium, high) follows from eight measurements by a rule that
is the same everywhere. The hospitals differ in whom they see: a general hospital (a), a heart centre with older
patients (b), and a clinic for young people (c) that sees no high risk at all.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

FEATURES = {
    "age": (52.0, 16.0, 0),
    "systolic": (131.0, 18.0, 0),
    "diastolic": (81.0, 11.0, 0),
    "cholesterol": (5.3, 1.1, 2),
    "glucose": (5.8, 1.4, 2),
    "bmi": (26.8, 4.6, 1),
    "heart_rate": (73.0, 11.0, 0),
    "creatinine": (83.0, 18.0, 0),
}
"""Mean and standard deviation, from the literature so to speak, and decimals. Everybody scales by these."""

CLASSES = ("low", "medium", "high")
LIMITS = (-0.35, 1.25)
"""Scores from which on the risk is medium, and high."""
NOISE = 0.25
TEST_SHARE = 0.25
SEED = 7

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Hospital:
    """Who comes to a hospital: how many, and how far from the population's mean they are, in standard deviations."""

    name: str
    patients: int
    shift: tuple[float, ...]
    spread: float
    highest: int
    """The highest risk that it sees, as a class; others are sent elsewhere."""


HOSPITALS = (
    Hospital("a", 400, (-0.1, -0.1, 0.1, 0.0, -0.3, -0.3, 0.0, 0.1), 0.75, 2),
    Hospital("b", 250, (0.9, 0.7, 0.3, 0.4, 0.3, 0.2, -0.5, 0.5), 0.7, 2),
    Hospital("c", 150, (-1.2, -0.5, -0.4, -0.5, -0.2, 0.6, 0.4, -0.3), 0.7, 1),
)


def score(z: Floats) -> Floats:
    """Return the risk of patients whose measurements are given in standard deviations."""
    age, systolic, diastolic, cholesterol, glucose, bmi, heart_rate, creatinine = z.T
    straight = 0.5 * age + 0.5 * systolic + 0.2 * diastolic + 0.4 * cholesterol + 0.3 * creatinine
    # Too little is as bad as too much; and two things together are worse than each alone.
    bent = 0.45 * (bmi**2 - 1) + 0.3 * (heart_rate**2 - 1) + 0.5 * glucose * bmi + 0.3 * age * systolic
    result: Floats = straight + bent
    return result


def patients(hospital: Hospital, generator: np.random.Generator) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return the measurements of a hospital's patients, rounded as they are written, and their risks."""
    means, deviations, decimals = map(np.array, zip(*FEATURES.values(), strict=True))
    # More than are needed: those with a risk that the hospital does not see are left out.
    z = hospital.spread * generator.normal(size=(4 * hospital.patients, len(FEATURES))) + np.array(hospital.shift)
    risks = np.digitize(score(z) + NOISE * generator.normal(size=len(z)), LIMITS)
    seen = np.flatnonzero(risks <= hospital.highest)[: hospital.patients]
    values = means + deviations * z[seen]
    for column, places in enumerate(decimals):
        values[:, column] = values[:, column].round(int(places))
    return values, risks[seen]


def rows_of(hospital: Hospital) -> list[list[str]]:
    """Return the rows of a hospital's table: measurements, risk, and whether the row is for the test."""
    # A generator for each hospital: one may change without the others.
    generator = np.random.default_rng([SEED, ord(hospital.name)])
    values, risks = patients(hospital, generator)
    is_test = generator.random(len(risks)) < TEST_SHARE
    rows = []
    for measured, risk, test in zip(values, risks, is_test, strict=True):
        cells = [f"{value:.{places}f}" for value, (_, _, places) in zip(measured, FEATURES.values(), strict=True)]
        rows.append([*cells, CLASSES[risk], "test" if test else "train"])
    return rows


def write(path: Path, header: list[str], rows: list[list[str]]) -> None:
    """Write a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def make(folder: Path) -> None:
    """Write a table for each hospital, one with all of them for simulations, and the scaling that they agreed on."""
    folder.mkdir(parents=True, exist_ok=True)
    header = [*FEATURES, "risk", "split"]
    everybody = []
    for hospital in HOSPITALS:
        rows = rows_of(hospital)
        write(folder / f"hospital-{hospital.name}.csv", header, rows)
        everybody += [[*row, hospital.name] for row in rows]
    write(folder / "all.csv", [*header, "hospital"], everybody)
    scaling = [[name, f"{mean:g}", f"{std:g}"] for name, (mean, std, _) in FEATURES.items()]
    write(folder / "scaling.csv", ["column", "mean", "std"], scaling)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    make(target)
    print(f"made-up patients of {len(HOSPITALS)} hospitals: {target}")
