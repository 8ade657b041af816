"""Sites of a federation: real services and processes, and what a simulation makes of the same clients."""
