"""Options: their kinds of values, and the configuration file."""
