"""Is it worth while to train together? Each hospital alone against all of them, on everybody's test patients.

    python make_data.py && python compare.py [FOLDER]

Nobody's rows are pooled in a federation; this is a simulation of one, on one machine. The patients are made up.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import flatfed as ff
from flatfed.experiments.tasks.recipe import TaskRecipe

ROUNDS = 30
SEEDS = (0, 1, 2)
TOGETHER = ("fedavg", "scaffold")


def task(folder: Path, seed: int) -> ff.Task:
    """Return the task: three clients, and a test with patients of all of them."""
    options = {
        "path": str(folder / "all.csv"),
        "scaling": str(folder / "scaling.csv"),
        "label": "risk",
        "client": "hospital",
        "class_names": "low,medium,high",
    }
    recipe = TaskRecipe(
        "table",
        partition={"id": "natural"},
        data_options=options,
        model="mlp",
        model_options={"hidden": "32,16"},
        seed=seed,
    )
    return recipe.build()


def accuracy(folder: Path, method: str, sampling: Any) -> float:
    """Return the accuracy after training, the mean over seeds."""
    total = 0.0
    for seed in SEEDS:
        run = ff.train(
            task(folder, seed),
            method,
            rounds=ROUNDS,
            sampling=sampling,
            lr=0.05,
            batch_size=16,
            local_epochs=2,
            weight_decay=1e-3,
            seed=seed,
            workers=0,
            evaluate_every=ROUNDS,
        )
        total += run.history[-1]["test_accuracy"]
    return total / len(SEEDS)


def main(folder: Path) -> None:
    """Print the accuracies."""
    for client, name in enumerate("abc"):
        alone = accuracy(folder, "fedavg", ff.Replay([[client]] * ROUNDS))
        print(f"hospital {name} alone    {alone:.3f}")
    for method in TOGETHER:
        print(f"{method:<10} together  {accuracy(folder, method, 3):.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
