"""Building tasks: by name from the catalogues, and again from a run directory."""
