"""Where clients run: in this process, or in a pool of worker processes on this machine."""
