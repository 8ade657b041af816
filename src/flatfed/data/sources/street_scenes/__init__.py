"""Published street scenes with a class per pixel."""
