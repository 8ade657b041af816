"""Running: a plan, its play, and what comes of it."""
