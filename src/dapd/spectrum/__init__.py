"""Singular values and eigenvalues: exact, from structure, by factorisation or by Lanczos; one file per approach."""
