"""What runs at one organisation of a federation: its data, its clients' states, its limits and its audit log."""
