"""Run directories: configuration, environment, history, checkpoints and what is needed to resume."""
