"""The dashboard: a page that follows the runs, comparisons and studies below a folder while they go on."""
