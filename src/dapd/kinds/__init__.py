"""φ: one class per kind."""
