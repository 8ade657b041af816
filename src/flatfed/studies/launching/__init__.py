"""Launching a study's workers elsewhere: as an array job on a Slurm cluster, through submitit."""
