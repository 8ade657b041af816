"""Which runs belong together, and what was common to them."""
