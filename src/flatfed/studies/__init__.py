"""Studies: methods x settings x seeds as one unit of work, on one machine or on many that share a folder."""
