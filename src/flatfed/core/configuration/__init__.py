"""Configurations that check themselves, schedules, and the training settings."""
