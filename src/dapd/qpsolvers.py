"""qpsolvers: after dapd.qpsolvers.register(), solve_qp(..., solver="dapd")."""

from dapd.frontends.needs import needs

with needs("qpsolvers"):
    from dapd.frontends.qpsolvers import register, solve_problem

__all__ = ["register", "solve_problem"]
