"""Client states in files: places of one size, an index of who lies where, and which places are free."""
