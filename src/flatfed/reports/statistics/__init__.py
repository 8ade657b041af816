"""What can be said of differences between methods: paired tests over seeds, ranks over settings."""
