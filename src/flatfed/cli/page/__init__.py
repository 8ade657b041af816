"""`flatfed report`, and the pages that other commands write."""
