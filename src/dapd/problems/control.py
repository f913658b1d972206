"""Model predictive control."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd import Problem, Quadratic
from dapd.arguments import named, real, vector, whole
from dapd.arrays import Array
from dapd.problems.quadratic import full


@named
def mpc(
    A: Any,
    B: Any,
    Q: Any,
    R: Any,
    *,
    horizon: int,
    start: Any,
    final: Any = None,
    target: Any = None,
    state_bounds: Any = (None, None),
    input_bounds: Any = (None, None),
) -> Problem:
    """½Σ_t (s_t − r)ᵀQ(s_t − r) + u_tᵀRu_t + ½(s_T − r)ᵀ final (s_T − r) subject to s_{t+1} = As_t + Bu_t, s_0 = start.

    The variables are (s_0, …, s_T, u_0, …, u_{T−1}); `trajectory(result.x, states, inputs)` takes them apart. Only b
    depends on the start: for the next step of a closed loop, put the measured state into its first entries and use
    `dapd.Solver`:

        b = problem.b.copy(); b[:states] = measured; solver.update(b=b); result = solver.solve()

    Parameters
    ----------
    A, B : matrices
        The dynamics, states × states and states × inputs.
    Q, R : vectors (the diagonals) or positive semidefinite matrices
        The costs of states and inputs.
    horizon : int
        T.
    start : vector
        The state now.
    final : vector or matrix, optional
        The cost of the last state; Q by default.
    target : vector, optional
        The state r to go to; zero by default. The constant that it adds to the cost is left out of `result.objective`.
    state_bounds, input_bounds : pairs (lower, upper), optional
        Numbers or vectors; None if there is none. The states s_1, …, s_T are bounded, the start is what it is.
    """
    start, T = vector("start", start), whole("horizon", horizon, least=1)
    A, B = _dynamics(real("A", A), real("B", B), len(start))
    n, k = B.shape
    stage, effort = _square("Q", Q, n), _square("R", R, k)
    last = stage if final is None else _square("final", final, n)
    H = sp.block_diag([sp.kron(sp.eye_array(T), stage), last, sp.kron(sp.eye_array(T), effort)], format="csr")
    goal = np.zeros(n) if target is None else vector("target", target, n)
    c = H @ np.concatenate([np.tile(goal, T + 1), np.zeros(T * k)])
    states = sp.eye_array((T + 1) * n) - sp.kron(sp.eye_array(T + 1, k=-1), A)
    inputs = -sp.kron(sp.eye_array(T + 1, T, k=-1), B)
    ends = [
        np.concatenate(
            [
                np.full(n, free),
                np.tile(full("state_bounds", of_state, free, n, f", expected {n}"), T),
                np.tile(full("input_bounds", of_input, free, k, f", expected {k}"), T),
            ]
        )
        for of_state, of_input, free in zip(state_bounds, input_bounds, (-np.inf, np.inf), strict=True)
    ]
    M = sp.hstack([states, inputs], format="csr")
    return Problem(Quadratic(H, c), M, np.concatenate([start, np.zeros(T * n)]), bounds=(ends[0], ends[1]))


def trajectory(x: Any, states: int, inputs: int) -> tuple[Array, Array]:
    """The states s_0, …, s_T and the inputs u_0, …, u_{T−1} of a solution of `mpc`, one row per time."""
    x = vector("x", x)
    T, rest = divmod(len(x) - states, states + inputs)
    if rest or T < 1:
        raise ValueError(f"x has {len(x)} entries, which is no trajectory of {states} states and {inputs} inputs")
    return x[: (T + 1) * states].reshape(T + 1, states), x[(T + 1) * states :].reshape(T, inputs)


def _dynamics(A: Array, B: Array, n: int) -> tuple[Any, Any]:
    if A.shape != (n, n):
        raise ValueError(f"A has shape {A.shape}, expected {(n, n)} for a start of {n} states")
    if B.ndim != 2 or B.shape[0] != n:
        raise ValueError(f"B has shape {B.shape}, expected {n} rows, one per state")
    return sp.csr_array(A), sp.csr_array(B)


def _square(name: str, value: Any, size: int) -> Any:
    given = real(name, value)
    if given.shape not in ((size,), (size, size)):
        raise ValueError(f"{name} has shape {given.shape}, expected {(size,)} (a diagonal) or {(size, size)}")
    return sp.diags_array(given) if given.ndim == 1 else sp.csr_array(given)
