"""Getting official files, checking them, and finding what is in place."""
