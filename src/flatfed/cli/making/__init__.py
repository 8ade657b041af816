"""What the options of a command say, typed or in a file, what is trained by them, and where runs are written."""
