"""What the options of a command make: the task, the methods, the training settings, and where runs are written."""
