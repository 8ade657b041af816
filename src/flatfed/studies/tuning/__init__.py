"""Tuning of a method's parameters within ranges: trials that Optuna proposes, run as cells of the study."""
