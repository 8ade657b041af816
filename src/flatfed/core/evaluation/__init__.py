"""Evaluation: metrics on the test sets, and where BatchNorm's statistics come from."""
