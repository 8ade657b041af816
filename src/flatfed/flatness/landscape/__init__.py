"""The loss along lines and planes through models."""
