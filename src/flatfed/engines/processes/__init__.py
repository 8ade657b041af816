"""Worker processes on this machine, with shared memory between them and the server."""
