"""Examples in memory and on disk: pools, decoding, and from raw values to a model's input."""
