"""Exporting: a run's model as files that other programs read, and the model card beside it."""
