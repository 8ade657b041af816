"""A plan: everything that decides a run, checked, described and counted before it is played."""
