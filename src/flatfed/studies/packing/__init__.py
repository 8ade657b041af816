"""Compact results of a study: a small file for each cell that has ended, and a study's folder made from them again."""
