"""`flatfed study`: methods x settings x seeds from a file, run by any number of processes, shown as one table."""
