"""Workers that are actors of a Ray cluster, on one machine or many."""
