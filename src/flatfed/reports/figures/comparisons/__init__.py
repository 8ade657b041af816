"""Figures that compare methods: differences to a reference, values against a parameter, mean ranks."""
