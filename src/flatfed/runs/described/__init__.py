"""Tasks on disk: modules, functions and tensors described without pickle."""
