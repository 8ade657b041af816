"""What people write: methods with their settings, and measurements."""
