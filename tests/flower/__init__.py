"""A federation on Flower: real apps, nodes and site processes, and what a simulation makes of the same clients."""
