"""Processes that share a study's folder: leases on cells, children that train them, and the loop over what is left."""
