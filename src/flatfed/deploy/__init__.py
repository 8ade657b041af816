"""A federation of organisations: certificates, keys, scripts and services for each of them, and a doctor for it."""
