"""Data that are made on the spot: nothing is read, and no number from them is one of a real data set."""
