"""Pictures of a study's finished runs: what the file asks for, which runs are on each, and how they are drawn."""
