"""Figures of the flatness laboratory: surfaces, contours, lines, spectra and what else measurements give."""
