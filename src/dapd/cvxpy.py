"""CVXPY: prob.solve(solver=dapd.cvxpy.DAPD()), or solver="DAPD" after dapd.cvxpy.register()."""

from dapd.frontends.needs import needs

with needs("cvxpy"):
    from dapd.frontends.cvxpy import DAPD, register

__all__ = ["DAPD", "register"]
