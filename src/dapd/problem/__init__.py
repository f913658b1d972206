"""The problem, the natural units of its data, and calls of what its user wrote."""
