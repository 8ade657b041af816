"""Models by id: `build("cnn", classes=10, in_channels=3, image_size=32, seed=0)`."""

from flatfed.models.catalogue import build, model, models

__all__ = ["build", "model", "models"]
