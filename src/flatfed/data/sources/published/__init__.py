"""Published data sets: one module per data set, or per family of them."""
