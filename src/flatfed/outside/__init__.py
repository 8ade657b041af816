"""Parts from outside the package: named by import path, or by the entry points of packages that are installed."""
