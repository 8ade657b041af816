"""Options: their kinds of values, the configuration file, and what they make."""
