"""A model as a conic quadratic program, and answers of the model as answers of that program.

Each cost and each kind of rows adds variables, rows and cones. It also says what they are at a point (x, y, z) of the
model, so one residual function judges answers of both kinds: `lift` keeps the primal, dual and gap residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from peers import model as m
from peers.conic import Answer, ConicQP

Blocks = dict[int, Any]  # first column -> matrix
Set = Callable[[Answer, Any, Any], None]


class Canonical:
    """A model's conic form: `qp`, and `lift` for answers of the model."""

    def __init__(self, model: m.Model) -> None:
        self.model = model
        self._cost: list[Any] = []  # q, variable block by variable block
        self._lower, self._upper = [model.lower], [model.upper]
        self._quadratic: list[tuple[int, Any]] = []
        self._rows: list[tuple[Blocks, Any, Any]] = []
        self._cone_rows: list[tuple[Blocks, Any]] = []
        self._cones: list[tuple[str, int]] = []
        self._setters: list[Set] = []
        self._variables, self._row_count, self._cone_count = model.variables, 0, 0
        linear = np.zeros(model.variables)
        self._cost.append(linear)
        start = 0
        for cost, size in model.costs:
            COSTS[type(cost)](self, cost, start, size, linear)
            start += size
        M = sp.csr_array(model.M)
        start = 0
        for part in model.parts:
            at = slice(start, start + part.rows)
            PARTS[type(part)](self, part, M[at], model.b[at], at)
            start = at.stop
        self.qp = self._assemble()

    def lift(self, x: Any, y: Any, z: Any) -> Answer:
        """The conic program's variables and multipliers at a point of the model."""
        qp = self.qp
        answer = Answer(*(np.zeros(len(v)) for v in (qp.q, qp.l, qp.q, qp.h)))
        answer.x[: len(x)], answer.z[: len(x)] = x, z
        for setter in self._setters:
            setter(answer, x, y)
        return answer

    def new_variables(self, cost: Any, lower: Any = -np.inf, upper: Any = np.inf) -> slice:
        """Append variables with these linear costs and bounds."""
        size, start = len(cost), self._variables
        self._cost.append(cost)
        self._lower.append(np.broadcast_to(lower, size))
        self._upper.append(np.broadcast_to(upper, size))
        self._variables += size
        return slice(start, self._variables)

    def new_rows(self, blocks: Blocks, lower: Any, upper: Any) -> slice:
        """Append lower ≤ Σ blocks ≤ upper."""
        self._rows.append((blocks, lower, upper))
        start = self._row_count
        self._row_count += len(lower)
        return slice(start, self._row_count)

    def new_cones(self, blocks: Blocks, offset: Any, cones: list[tuple[str, int]]) -> slice:
        """Append Σ blocks + offset ∈ the product of the cones."""
        self._cone_rows.append((blocks, offset))
        self._cones += cones
        start = self._cone_count
        self._cone_count += len(offset)
        return slice(start, self._cone_count)

    def new_quadratic(self, start: int, P: Any) -> None:
        """Add ½vᵀPv for the variables from `start` on."""
        self._quadratic.append((start, sp.coo_array(P)))

    def at_answer(self, setter: Set) -> None:
        """Say what the new variables and multipliers are at a point of the model."""
        self._setters.append(setter)

    def _assemble(self) -> ConicQP:
        size = (self._variables, self._variables)
        P = placed(((start, {start: P}) for start, P in self._quadratic), size)
        rows = np.cumsum([0] + [len(lower) for _, lower, _ in self._rows])
        A = placed(zip(rows, (blocks for blocks, _, _ in self._rows), strict=False), (self._row_count, size[1]))
        starts = np.cumsum([0] + [len(offset) for _, offset in self._cone_rows])
        G = placed(zip(starts, (blocks for blocks, _ in self._cone_rows), strict=False), (self._cone_count, size[1]))
        return ConicQP(
            P=P,
            q=np.concatenate(self._cost),
            A=A,
            l=joined(lower for _, lower, _ in self._rows),
            u=joined(upper for _, _, upper in self._rows),
            lower=np.concatenate(self._lower),
            upper=np.concatenate(self._upper),
            G=G,
            h=joined(offset for _, offset in self._cone_rows),
            cones=self._cones,
        )


def joined(arrays: Iterator[Any]) -> Any:
    """All arrays in one, also if there is none."""
    return np.concatenate([np.zeros(0), *arrays])


def placed(groups: Any, shape: tuple[int, int]) -> Any:
    """A sparse matrix from matrices at given first rows and columns."""
    rows, columns, entries = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0)]
    for row, blocks in groups:
        for column, block in blocks.items():
            found = sp.coo_array(block)
            rows.append(found.row + row)
            columns.append(found.col + column)
            entries.append(found.data)
    matrix = sp.csc_array((np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return sp.csc_matrix(matrix)  # the peers expect the older class


def spaced(matrix: Any, every: int, offset: int) -> Any:
    """The rows of a matrix, `every` rows apart, from row `offset` on."""
    found = sp.coo_array(matrix)
    return sp.coo_array((found.data, (found.row * every + offset, found.col)), (found.shape[0] * every, found.shape[1]))


def quadratic(c: Canonical, cost: m.Quadratic, start: int, size: int, linear: Any) -> None:
    P = cost.P if sp.issparse(cost.P) or np.ndim(cost.P) == 2 else sp.diags_array(cost.P)
    c.new_quadratic(start, P)
    linear[start : start + size] += cost.q


def squares(c: Canonical, cost: m.Squares, start: int, size: int, linear: Any) -> None:
    """With P = AᵀA if A is tall, otherwise with the variables r = Ax − d and ½‖r‖²."""
    rows = cost.A.shape[0]
    if cost.ridge:
        c.new_quadratic(start, cost.ridge * sp.eye_array(size))
    if rows >= size:
        c.new_quadratic(start, cost.A.T @ cost.A)
        linear[start : start + size] -= cost.A.T @ cost.d
        return
    r = c.new_variables(np.zeros(rows))
    c.new_quadratic(r.start, sp.eye_array(rows))
    at = c.new_rows({start: cost.A, r.start: -sp.eye_array(rows)}, cost.d, cost.d)

    def setter(answer: Answer, x: Any, y: Any) -> None:
        answer.x[r] = answer.y[at] = cost.A @ x[start : start + size] - cost.d

    c.at_answer(setter)


def pseudo_huber(c: Canonical, cost: m.PseudoHuber, start: int, size: int, linear: Any) -> None:
    """The cones (t_i, x_i, e)."""
    one = sp.eye_array(size)
    c.new_quadratic(start, cost.e * one)
    t = c.new_variables(np.ones(size))
    offset = np.tile([0.0, 0.0, cost.e], size)
    w = c.new_cones({t.start: spaced(one, 3, 0), start: spaced(one, 3, 1)}, offset, [("second-order", 3)] * size)

    def setter(answer: Answer, x: Any, y: Any) -> None:
        own = x[start : start + size]
        answer.x[t] = length = np.hypot(own, cost.e)
        answer.w[w] = np.column_stack([np.ones(size), -own / length, -cost.e / length]).ravel()

    c.at_answer(setter)


def logistic(c: Canonical, cost: m.Logistic, start: int, size: int, linear: Any) -> None:
    """With s = −label·aᵀx: the cones (s − t, 1, p) and (−t, 1, r), and p + r ≤ 1."""
    rows = cost.A.shape[0]
    S = -sp.diags_array(np.asarray(cost.labels, float)) @ sp.csr_array(cost.A)
    one = sp.eye_array(rows)
    if cost.ridge:
        c.new_quadratic(start, cost.ridge * sp.eye_array(size))
    t, p, r = c.new_variables(np.ones(rows)), c.new_variables(np.zeros(rows)), c.new_variables(np.zeros(rows))
    at = c.new_rows({p.start: one, r.start: one}, np.full(rows, -np.inf), np.ones(rows))
    offset, kinds = np.tile([0.0, 1.0, 0.0], rows), [("exponential", 3)] * rows
    first = {start: spaced(S, 3, 0), t.start: spaced(-one, 3, 0), p.start: spaced(one, 3, 2)}
    w = c.new_cones(first, offset, kinds)
    v = c.new_cones({t.start: spaced(-one, 3, 0), r.start: spaced(one, 3, 2)}, offset, kinds)

    def setter(answer: Answer, x: Any, y: Any) -> None:
        s = S @ x[start : start + size]
        answer.x[t] = top = np.logaddexp(0.0, s)
        answer.y[at] = 1.0
        for variable, cone, log in ((p, w, s - top), (r, v, -top)):
            answer.x[variable] = e = np.exp(log)
            answer.w[cone] = np.column_stack([-e, -e * (1.0 - log), np.ones(rows)]).ravel()

    c.at_answer(setter)


def within(c: Canonical, part: m.Within, M: Any, b: Any, own: slice) -> None:
    at = c.new_rows({0: M}, part.lower + b, part.upper + b)

    def setter(answer: Answer, x: Any, y: Any) -> None:
        answer.y[at] = y[own]

    c.at_answer(setter)


def slopes(c: Canonical, part: m.Slopes, M: Any, b: Any, own: slice) -> None:
    """|r| ≤ t if the slopes are ±λ, r ≤ s and s ≥ 0 if one is zero, otherwise r = p − n."""
    rows, one, inf = part.rows, sp.eye_array(part.rows), np.full(part.rows, np.inf)
    if np.isfinite(part.upper).all() and np.array_equal(part.lower, -part.upper):
        t = c.new_variables(part.upper)
        above = c.new_rows({0: M, t.start: -one}, -inf, b)
        below = c.new_rows({0: M, t.start: one}, b, inf)

        def setter(answer: Answer, x: Any, y: Any) -> None:
            answer.x[t] = abs(M @ x - b)
            answer.y[above], answer.y[below] = (part.upper + y[own]) / 2, (y[own] - part.upper) / 2

    elif np.isfinite(part.upper).all() and not part.lower.any():
        s = c.new_variables(part.upper, lower=0.0)
        at = c.new_rows({0: M, s.start: -one}, -inf, b)

        def setter(answer: Answer, x: Any, y: Any) -> None:
            answer.x[s] = np.maximum(M @ x - b, 0.0)
            answer.y[at], answer.z[s] = y[own], y[own] - part.upper

    else:
        up, down = (np.where(np.isfinite(slope), slope, 0.0) for slope in (part.upper, -part.lower))
        p = c.new_variables(up, 0.0, np.where(np.isfinite(part.upper), np.inf, 0.0))
        n = c.new_variables(down, 0.0, np.where(np.isfinite(part.lower), np.inf, 0.0))
        at = c.new_rows({0: M, p.start: -one, n.start: one}, b, b)

        def setter(answer: Answer, x: Any, y: Any) -> None:
            r = M @ x - b
            # a variable that is fixed at zero leaves the residual to its row
            answer.x[p] = np.where(np.isfinite(part.upper), np.maximum(r, 0.0), 0.0)
            answer.x[n] = np.where(np.isfinite(part.lower), np.maximum(-r, 0.0), 0.0)
            answer.y[at], answer.z[p], answer.z[n] = y[own], y[own] - up, -down - y[own]

    assert rows == own.stop - own.start
    c.at_answer(setter)


def norms(c: Canonical, part: m.Norms, M: Any, b: Any, own: slice) -> None:
    """The cones (t_g, r_g)."""
    sizes, count = np.asarray(part.sizes), len(part.sizes)
    radius = np.broadcast_to(part.radius, count).astype(float)
    starts = np.cumsum(sizes) - sizes
    tops = starts + np.arange(count)  # rows of the cones with t_g
    inner = np.arange(part.rows) + np.repeat(np.arange(1, count + 1), sizes)
    t = c.new_variables(radius)
    found, total = sp.coo_array(M), part.rows + count
    body = sp.coo_array((found.data, (inner[found.row], found.col)), (total, M.shape[1]))
    top = sp.coo_array((np.ones(count), (tops, np.arange(count))), (total, count))
    offset = np.zeros(total)
    offset[inner] = -b
    w = c.new_cones({0: body, t.start: top}, offset, [("second-order", int(size) + 1) for size in sizes])

    def setter(answer: Answer, x: Any, y: Any) -> None:
        answer.x[t] = np.sqrt(np.add.reduceat((M @ x - b) ** 2, starts))
        whole = np.empty(total)
        whole[tops], whole[inner] = radius, -y[own]
        answer.w[w] = whole

    c.at_answer(setter)


COSTS: dict[type, Callable[..., None]] = {
    m.Quadratic: quadratic,
    m.Squares: squares,
    m.PseudoHuber: pseudo_huber,
    m.Logistic: logistic,
}
PARTS: dict[type, Callable[..., None]] = {m.Within: within, m.Slopes: slopes, m.Norms: norms}
