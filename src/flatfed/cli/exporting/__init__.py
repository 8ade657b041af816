"""The way out of a run: `flatfed export`, `predict`, `bundle` and `verify`."""
