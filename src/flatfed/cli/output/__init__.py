"""What commands show: progress, the start-up summary, and results at the end."""
