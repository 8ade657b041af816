"""`flatfed data`: get, check, list and show data sets."""
