"""Records of a run on disk: how they are written, sealed, shaped, and read from earlier versions."""
