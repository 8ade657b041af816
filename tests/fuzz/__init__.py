"""Damaged files, odd arguments and foreign bytes: each is read well or refused with a sentence, never a traceback."""
