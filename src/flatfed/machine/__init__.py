"""What this machine offers: cores, memory, disk space."""
