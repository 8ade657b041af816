"""The networks, a module for each."""
