"""The report as one page for a browser: data from results, thinned for drawing, in a template with a script."""
