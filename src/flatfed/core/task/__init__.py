"""The task: a model, the clients' examples, test sets and a loss."""
