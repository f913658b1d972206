"""Solutions that JAX can differentiate."""
