"""Methods whose clients take adaptive steps."""
