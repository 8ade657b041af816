"""Tables and figures of accuracy under corruptions."""
