"""The model as one vector, and the oracle of its loss and gradient."""
