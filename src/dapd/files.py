"""Quadratic programs in files: dapd.files.load("problem.qps")."""

from dapd.frontends.files import FileError, Loaded, load, save

__all__ = ["FileError", "Loaded", "load", "save"]
