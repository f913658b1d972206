"""f: the smooth part of the objective."""
