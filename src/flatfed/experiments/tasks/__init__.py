"""Building tasks: by name from the catalogues, from the options of a run, and again from a run directory."""
