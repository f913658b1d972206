"""Derivatives of solutions through the optimality conditions, whichever library the arrays belong to."""
