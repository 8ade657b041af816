"""A run whose clients are at sites of other organisations."""
