"""How flat a minimum is: the loss around a model, measured and seen."""
