"""Published data sets, a module for each, with its official files and expected counts."""
