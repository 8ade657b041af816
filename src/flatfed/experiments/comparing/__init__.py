"""Comparisons of methods and seeds, and the methods' costs."""
