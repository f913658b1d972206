"""Networks: flow along edges, transport between two sides, and agreement of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd import Function, Problem, Quadratic, Separable
from dapd.arguments import named, number, real, vector, whole
from dapd.arrays import Array
from dapd.problems.quadratic import full


def incidence(edges: Any, nodes: int) -> Any:
    """The sparse matrix, nodes × edges, with 1 at the tail of an edge and −1 at its head."""
    pairs = _checked(edges, nodes)
    k = np.arange(len(pairs))
    entries = np.repeat([1.0, -1.0], len(pairs))
    return sp.csr_array((entries, (pairs.T.ravel(), np.concatenate([k, k]))), shape=(nodes, len(pairs)))


def _checked(edges: Any, nodes: int) -> Array:
    pairs = np.asarray(edges)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise TypeError(f"edges must be pairs of whole numbers (tail, head), found shape {pairs.shape}, {pairs.dtype}")
    wrong = (pairs < 0) | (pairs >= nodes)
    if wrong.any():
        at = int(np.argmax(wrong.any(axis=1)))
        raise ValueError(f"edges[{at}] is {tuple(pairs[at].tolist())}, but the nodes are 0, …, {nodes - 1}")
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        raise ValueError(f"edges[{int(np.argmax(loops))}] goes from a node to itself; remove it")
    return pairs


@named
def flow(edges: Any, supply: Any, *, cost: Any = 0.0, curvature: Any = 1.0, capacity: Any = (0.0, None)) -> Problem:
    """Σ_e cost_e·x_e + ½curvature_e·x_e² subject to: out of each node flows its supply, and x is within the capacities.

    The multipliers `result.y` are the prices at the nodes, up to a constant.

    Parameters
    ----------
    edges : pairs (tail, head) of node numbers, an array of edges × 2
    supply : vector, one entry per node
        What enters the network there; negative for a demand. The sum is zero.
    cost, curvature : float or vector, one entry per edge
        The linear and quadratic cost of a unit of flow; curvature ≥ 0.
    capacity : pair (lower, upper)
        Numbers, or one entry per edge; None if there is none. (0, None) for flow in the direction of the edge only.
    """
    supply = vector("supply", supply)
    M = incidence(edges, len(supply))
    m = M.shape[1]
    if abs(supply.sum()) > 1e-9 * abs(supply).sum():
        raise ValueError(f"supply must sum to zero, found {supply.sum():g}; what enters the network must leave it")
    edgewise = f" for {m} edges"
    f = Quadratic(full("curvature", curvature, None, m, edgewise), -full("cost", cost, None, m, edgewise))
    return Problem(f, M, supply, bounds=capacity)


@named
def transport(cost: Any, source: Any, target: Any, weight: float) -> Problem:
    """Σ_ij C_ij X_ij + (weight/2)‖X‖² subject to X ≥ 0, row sums `source`, column sums `target`.

    Optimal transport, quadratically regularised: unlike the entropic one, the plan is sparse. `result.x` is X row by
    row: `result.x.reshape(cost.shape)`; `result.y` are minus the potentials of source and target.

    Parameters
    ----------
    cost : matrix, sources × targets
    source, target : vectors of nonnegative numbers with the same sum
    weight : float
        0 is the linear problem.
    """
    C = real("cost", cost)
    if C.ndim != 2:
        raise ValueError(f"cost must be a matrix, found shape {C.shape}")
    source, target = vector("source", source, C.shape[0]), vector("target", target, C.shape[1])
    if abs(source.sum() - target.sum()) > 1e-9 * max(source.sum(), target.sum()):
        sums = source.sum(), target.sum()
        raise ValueError(
            f"source and target must have the same sum, found {sums[0]:g} and {sums[1]:g}, which differ by "
            f"{abs(sums[0] - sums[1]):.1g}; divide each by its sum"
        )
    f = Quadratic(np.full(C.size, number("weight", weight, least=0.0)), -C.ravel())
    rows = sp.kron(sp.eye_array(C.shape[0]), np.ones((1, C.shape[1])))
    columns = sp.kron(np.ones((1, C.shape[0])), sp.eye_array(C.shape[1]))
    M = sp.vstack([rows, columns], format="csr")
    return Problem(f, M, np.concatenate([source, target]), bounds=(0.0, None))


@named
def consensus(functions: Sequence[Function], edges: Any, *, size: int | None = None) -> Problem:
    """Σ_i f_i(x_i) subject to x_i = x_j for each edge (i, j): nodes that agree, each with data of its own.

    `result.x.reshape(nodes, size)` has one row per node. In a connected graph all rows are the minimiser of Σ f_i.

    Parameters
    ----------
    functions : list of Function
        One per node, each of the same number of variables.
    edges : pairs of node numbers, an array of edges × 2
    size : int, optional
        The number of variables of a node, if the functions do not know it (PseudoHuber).
    """
    sizes = {f.size for f in functions if f.size is not None}
    if size is None and len(sizes) != 1:
        raise ValueError(f"functions have sizes {sorted(sizes)}; they must agree, or size= must say what it is")
    p = sizes.pop() if size is None else whole("size", size, least=1)
    M = sp.kron(incidence(edges, len(functions)).T, sp.eye_array(p or 1), format="csr")
    f = Separable(functions, sizes=[p or 1] * len(functions))
    return Problem(f, M, np.zeros(M.shape[0]))
