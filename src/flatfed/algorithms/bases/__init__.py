"""What several methods share without sharing parameters."""
