"""`flatfed report` and `flatfed dashboard`, and the pages that other commands write."""
