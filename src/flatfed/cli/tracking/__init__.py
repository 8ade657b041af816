"""`flatfed track`: runs that are sent to trackers afterwards."""
