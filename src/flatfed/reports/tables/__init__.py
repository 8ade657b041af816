"""Tables of results: their columns, numbers and files."""
