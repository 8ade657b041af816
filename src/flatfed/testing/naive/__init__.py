"""A second, deliberately naive computation: NumPy, float64, one client after the other; it shares no other code."""
