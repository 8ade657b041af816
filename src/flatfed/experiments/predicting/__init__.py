"""Predicting: the classes that a run's model gives to new images, texts and rows."""
