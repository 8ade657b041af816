"""`flatfed published`: what papers published, looked up."""
