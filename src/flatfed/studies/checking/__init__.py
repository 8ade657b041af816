"""Checking a study before it runs: what is wrong with its cells, and what they take."""
