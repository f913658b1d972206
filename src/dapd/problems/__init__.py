"""Problems that people type most, one call each."""

from dapd.problems.quadratic import qp

__all__ = ["qp"]
