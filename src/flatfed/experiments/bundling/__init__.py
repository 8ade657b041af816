"""Bundling: a run in one file for a stranger, and the replay that verifies it."""
