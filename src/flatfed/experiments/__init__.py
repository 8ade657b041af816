"""Training, resuming and comparing: a task, a method, an engine and a run directory put together."""
