"""Make docs/gallery.md and its pictures: trains on the embedded digits, measures, draws. `make gallery`."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
WORK = HERE.parent / "gallery"
PICTURES = HERE / "pictures" / "gallery"

SCREEN_DPI = 200
"""Dots per inch of the pictures of the documentation."""

RUNS = "gallery/runs"
FEDAVG, FEDSAM, FEDGLOSS = (f"{RUNS}/{method}/seed-0" for method in ("fedavg", "fedsam", "fedgloss+sam"))
TRAIN = (
    "flatfed compare digits fedavg fedsam fedgloss+sam --config examples/gallery.yaml --seeds 0,1 --flatness "
    f"--watch lambda_max:10,client_accuracy:10,client_lambda:10 --out {RUNS}"
)


@dataclass(frozen=True)
class Picture:
    """A heading, what makes the picture, which file that is, and what it shows."""

    heading: str
    command: str
    file: str
    words: str


PICTURES_SHOWN = [
    Picture(
        "The loss around two models",
        f"flatfed landscape {FEDAVG} {FEDSAM} --out gallery/around",
        "around/surface.png",
        "The same two raw random directions for both, each normalised by its model's own filters: `fedavg` solid, "
        "`fedsam` as a mesh. The command also writes `surface.html`, a page that works offline and lets the surfaces "
        "be turned, switched off and read point by point.",
    ),
    Picture(
        "The same as contours",
        f"flatfed landscape {FEDAVG} {FEDSAM} --out gallery/around",
        "around/surface-contours.png",
        "One scale for both panels: the wider the dark basin, the flatter. Directions are normalised by the filters, "
        "so this is flatness against *relative* changes; a method with larger weights (`fedgloss+sam`, three times "
        "the norm) is pushed further.",
    ),
    Picture(
        "Between two models",
        f"flatfed landscape {FEDGLOSS} {FEDAVG} --kind line --out gallery/line",
        "line/line.png",
        "A barrier of about zero would mean one basin.",
    ),
    Picture(
        "A plane through three models",
        f"flatfed landscape {FEDAVG} {FEDSAM} {FEDGLOSS} --kind plane --out gallery/plane",
        "plane/plane-loss.png",
        "Training loss; the command also draws the test error.",
    ),
    Picture(
        "At growing distance",
        f"flatfed landscape {FEDAVG} {FEDSAM} {FEDGLOSS} --kind along --out gallery/along",
        "along/along-the-gradient.png",
        "Along each model's own gradient; the command also draws the mean along filter-normalised random directions.",
    ),
    Picture(
        "One client's model, seen by itself and by everyone",
        f"flatfed landscape {FEDAVG} --kind client --out gallery/client",
        "client/client.png",
        "After local training a client sits in a flat place of its own loss, which is no minimum of everyone's: why "
        "flatness on the clients need not be flatness of the global loss.",
    ),
    Picture(
        "Spectra",
        f"flatfed flatness {FEDAVG} {FEDSAM} {FEDGLOSS} --measure 'spectrum(k=50,samples=3)' --figures gallery/spectra",
        "spectra/spectra.png",
        "The 50 largest eigenvalues of the Hessian with their residuals, and the density of all of them.",
    ),
    Picture(
        "Accuracy and sharpness",
        f"flatfed flatness {RUNS} --measure lambda_max --figures gallery/scatter",
        "scatter/accuracy-lambda.png",
        "A small mark is a run, a large one the mean over seeds.",
    ),
    Picture(
        "Sharpness over rounds",
        f"flatfed show {RUNS} --figure gallery/rounds.png --plot lambda_max,test_accuracy",
        "rounds.png",
        "From `--watch lambda_max:10`: measured while it trains, without changing a bit of the result.",
    ),
    Picture(
        "The global model on each client",
        f"flatfed flatness {FEDAVG} --measure loss --figures gallery/clients",
        "clients/fedavg-client_accuracy.png",
        "From `--watch client_accuracy:10`; a thin line is a client.",
    ),
    Picture(
        "Sharpness of the clients' own models",
        f"flatfed flatness {FEDAVG} --measure loss --figures gallery/clients",
        "clients/fedavg-client_lambda.png",
        "From `--watch client_lambda:10`: λmax of each client's model after local training, on its own examples.",
    ),
    Picture(
        "Features",
        f"flatfed flatness {FEDAVG} {FEDGLOSS} --measure loss --figures gallery/features --tsne",
        "features/features.png",
        "t-SNE of what goes into the last layer, test examples coloured by class.",
    ),
    Picture(
        "Class distribution",
        "flatfed data show digits --clients 50 --alpha 0.3 --figure gallery/class-distribution.png",
        "class-distribution.png",
        "The division among clients, before anything is trained.",
    ),
]


def main() -> None:
    """Train, measure, draw, and write the page."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.rmtree(PICTURES, ignore_errors=True)
    WORK.mkdir()
    PICTURES.mkdir(parents=True)
    started = time.monotonic()
    for command in dict.fromkeys([TRAIN, *(picture.command for picture in PICTURES_SHOWN)]):
        print(command, flush=True)
        subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=HERE.parent, check=True)
    for picture in PICTURES_SHOWN:
        _copy_smaller(WORK / picture.file, PICTURES / Path(picture.file).name)
    (HERE / "gallery.md").write_text(_page(), encoding="utf-8")
    print(f"docs/gallery.md and {len(PICTURES_SHOWN)} pictures in {time.monotonic() - started:.0f} s")


def _copy_smaller(picture: Path, copy: Path) -> None:
    """Copy a picture for a screen: a page need not be as sharp as a print."""
    from PIL import Image

    with Image.open(picture) as image:
        size = image.width * SCREEN_DPI // 300, image.height * SCREEN_DPI // 300
        smaller = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    few = smaller.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(copy, optimize=True)


def _page() -> str:
    parts = [
        "# Gallery\n",
        "Every picture of this page comes from one command, `make gallery`, on the embedded digits: Dirichlet 1 over "
        "50 clients, 10 per round, 200 rounds, seeds 0 and 1. The runs behind them:\n",
        f"    {TRAIN}\n",
        "What the measurements are, and how to take others: [flatness](flatness.md).\n",
    ]
    for picture in PICTURES_SHOWN:
        image = f"![{picture.heading}](pictures/gallery/{Path(picture.file).name})"
        parts += [f"## {picture.heading}\n", f"    {picture.command}\n", f"{image}\n", f"{picture.words}\n"]
    return "\n".join(parts)


if __name__ == "__main__":
    main()
