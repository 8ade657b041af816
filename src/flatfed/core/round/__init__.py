"""One round: who takes part, what crosses, local training, checks, the next state."""
