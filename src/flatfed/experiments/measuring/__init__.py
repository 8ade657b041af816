"""Measuring the models of runs: metrics, flatness, landscapes, robustness."""
