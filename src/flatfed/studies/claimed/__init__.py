"""The claims of papers, judged by the runs of a study."""
