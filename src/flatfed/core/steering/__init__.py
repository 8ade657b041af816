"""What a run's own history decides: when it ends, which model is best, when the learning rate is lowered."""
