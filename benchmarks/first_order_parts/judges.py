"""Who says how accurate an answer is; no judge knows a solver.

A judge takes a `Case` (the model and its conic form) and an answer of the conic form. The multipliers of bounds are
completed first: whatever stationarity leaves over counts for a bound, where its sign allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from peers import model as m
from peers.case import Case
from peers.conic import Answer, greatest, outside, residuals, support, wrong_sign

Judge = Callable[[Case, Answer], float]


def leftover(qp: Any, answer: Answer) -> Any:
    """Px + q + Aᵀy − Gᵀw."""
    return qp.P @ answer.x + qp.q + qp.A.T @ answer.y - qp.G.T @ answer.w


def completed(qp: Any, answer: Answer) -> Answer:
    """The answer with the multipliers of bounds that stationarity asks for."""
    g = leftover(qp, answer)
    z = -np.where(g > 0, np.where(np.isfinite(qp.lower), g, 0.0), np.where(np.isfinite(qp.upper), g, 0.0))
    return Answer(answer.x, answer.y, z, answer.w)


def relative_norms(case: Case, answer: Answer) -> float:
    """PDLP's criterion: primal and dual residual in the 2-norm and the gap, each relative (Applegate et al. 2021)."""
    qp = case.qp
    answer = completed(qp, answer)
    x, y, z = answer.x, answer.y, answer.z
    sizes = np.maximum(*(np.where(np.isfinite(end), abs(end), 0.0) for end in (qp.l, qp.u)))
    with np.errstate(all="ignore"):
        missed = max(map(np.linalg.norm, (outside(qp.A @ x, qp.l, qp.u), outside(x, qp.lower, qp.upper))))
        slopes = np.concatenate([leftover(qp, answer) + z, wrong_sign(y, qp.l, qp.u)])
        primal = 0.5 * x @ (qp.P @ x) + qp.q @ x
        dual = -0.5 * x @ (qp.P @ x) - support(y, qp.l, qp.u) - support(z, qp.lower, qp.upper)
        return greatest(
            missed / (1 + np.linalg.norm(sizes)),
            np.linalg.norm(slopes) / (1 + np.linalg.norm(qp.q)),
            abs(primal - dual) / (1 + abs(primal) + abs(dual)),
        )


def absolute(case: Case, answer: Answer) -> float:
    """The greatest of primal residual, dual residual and gap, absolute and in the ∞-norm."""
    return residuals(case.qp, completed(case.qp, answer)).worst


def relative(case: Case, answer: Answer) -> float:
    """The same relative to the greatest term of each, with the multipliers of bounds as given or completed."""
    given = residuals(case.qp, answer).relative
    return given if case.qp.cones else min(given, residuals(case.qp, completed(case.qp, answer)).relative)


def gap(case: Case, answer: Answer) -> float:
    """The relative duality gap, for a strongly convex diagonal f and finite slopes: every x and y is then feasible."""
    model = case.model
    (cost, n), part = model.costs[0], model.parts[0]
    assert isinstance(cost, m.Quadratic)
    assert isinstance(part, m.Slopes)
    x = answer.x[:n]
    y = np.clip(answer.y.reshape(-1, model.rows).sum(axis=0), part.lower, part.upper)
    with np.errstate(all="ignore"):
        r = model.M @ x - model.b
        primal = 0.5 * x @ (cost.P * x) + cost.q @ x + np.maximum(part.upper * r, part.lower * r).sum()
        dual = -0.5 * ((cost.q + model.M.T @ y) ** 2 / cost.P).sum() - model.b @ y
        return greatest(abs(primal - dual) / (1 + abs(primal) + abs(dual)))


JUDGES: dict[str, Judge] = {"norms": relative_norms, "absolute": absolute, "relative": relative, "gap": gap}
