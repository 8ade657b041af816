"""What a script calls to have what the command line has: data sets, partitions, tasks and comparisons by name."""
