"""Singular values and eigenvalues: exact, from structure, or by Lanczos."""
