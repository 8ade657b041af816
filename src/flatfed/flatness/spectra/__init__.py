"""Eigenvalues, trace and density of the Hessian."""
