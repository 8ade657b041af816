"""Readers of file formats, one module each: NumPy arrays, or an error that names the file."""
