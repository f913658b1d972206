"""Numba leaf kernels and the records they read; each has a plain twin that the tests hold it equal to."""
