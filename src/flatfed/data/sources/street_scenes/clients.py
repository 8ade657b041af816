"""What street scenes share that are divided among clients: the pictures of clients, and their normalisation."""

from __future__ import annotations

from pathlib import Path

from flatfed.data.formats.segmentation import ClientList, MaskLabels, Pairs
from flatfed.data.storage.pool import Normalise

NORMALISE = Normalise((0.5,) * 3, (0.5,) * 3)
"""As FedDrive has it."""


def pairs_of(
    clients: list[ClientList], labels: MaskLabels, size: tuple[int, int] | None, named_in: Path | None = None
) -> Pairs:
    """Return the pictures of these clients, one client after another; `named_in` is the folder of their lists."""
    images: list[Path] = []
    masks: list[Path] = []
    for client in clients:
        images += client.images
        masks += client.masks
    return Pairs.found(images, masks, labels, size, named_in)


def names_of(clients: list[ClientList]) -> list[str]:
    """Return for each picture of these clients the name of the client."""
    names: list[str] = []
    for client in clients:
        names += [client.name] * len(client.images)
    return names
