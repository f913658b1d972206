"""Linear algebra with factorisations: what it would cost, and the solvers that use it."""
