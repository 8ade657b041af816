"""Tables as they come: numbers, categories, missing values, a target; what is learnt from training rows is a record."""
