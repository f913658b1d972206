"""The paper's problems, from `dapd.experiments`, as models."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import dapd
from peers import model as m


def model_of(problem: dapd.Problem, family: str) -> m.Model:
    """The data of a problem of the paper."""
    f, phi, rows = problem.f, problem.phi, problem.rows
    cost = m.PseudoHuber(f.e) if isinstance(f, dapd.PseudoHuber) else m.Quadratic(f.H, -f.c)
    if isinstance(phi, dapd.Zero):
        part: m.Part = m.equations(rows)
    elif isinstance(phi, dapd.NonNegative):
        part = m.inequalities(rows)
    elif isinstance(phi, dapd.L1):
        nu = np.broadcast_to(phi.nu, rows)
        part = m.Within(-nu, nu)
    else:
        count = rows // phi.groups
        part = m.Norms(np.broadcast_to(phi.radius, count), np.full(count, phi.groups))
    if isinstance(problem.M, dapd.Kronecker):
        width = problem.columns // problem.M.A.shape[1]
        M = sp.kron(problem.M.A, sp.eye_array(width)).tocsr()
        return m.make("", family, cost, M, problem.b, part, form="kronecker", factors=(problem.M.A, width))
    return m.make("", family, cost, problem.M.dense(), problem.b, part)


def compressed_sensing(setting: int, seed: int) -> m.Model:
    """The two settings: L/μ = 1e4 and s_max²/s_min² = 1e5, L/μ = 1e3 and s_max²/s_min² = 1e6."""
    condition, coupling = {1: (1e4, 1e5), 2: (1e3, 1e6)}[setting]
    problem = dapd.experiments.compressed_sensing(seed, condition=condition, coupling_condition=coupling)
    return model_of(problem, "compressed sensing")


def system_identification(p: int, seed: int) -> m.Model:
    """Order 40 with T = 10 and L/μ = 1e9, order 100 with T = 20 and L/μ = 1e4."""
    length, condition = {40: (10, 1e9), 100: (20, 1e4)}[p]
    problem = dapd.experiments.system_identification(seed, p=p, T=length, condition=condition)
    return model_of(problem, "system identification")


def qp_l1(columns: int, seed: int) -> m.Model:
    """‖Mx − b‖∞ ≤ 0.01."""
    return model_of(dapd.experiments.qp_l1(seed, m=columns, n=columns // 3), "qp, l1")


def qp_inequality(columns: int, seed: int) -> m.Model:
    """Mx ≤ b, half of the rows active."""
    sixth = columns // 6
    return model_of(dapd.experiments.qp_inequality(seed, m=columns, active=sixth, inactive=sixth), "qp, inequality")
