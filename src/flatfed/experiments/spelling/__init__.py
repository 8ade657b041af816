"""What people write: options of a run, methods with their settings, and measurements."""
