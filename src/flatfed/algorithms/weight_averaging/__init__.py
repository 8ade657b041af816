"""Weight averaging over the rounds: what is evaluated in place of the last global model."""
