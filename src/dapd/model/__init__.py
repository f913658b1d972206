"""What the user writes: the problem, f and φ. NumPy and SciPy only."""
