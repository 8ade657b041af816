"""The server of the dashboard: who may ask, how many may, and how it begins and ends."""
