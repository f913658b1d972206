"""The instances, judges and solvers of `benchmarks/first_order.py`."""
