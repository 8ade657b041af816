"""A study on a page: its tables, pictures and words."""
