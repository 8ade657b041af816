"""Runs in the trackers that people already use; a process beside the run reads its directory and sends what is new."""
