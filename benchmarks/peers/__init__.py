"""Problems, solvers and tables of `benchmarks/peers.py`."""
