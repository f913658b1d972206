"""Solutions that PyTorch can differentiate: `dapd.torch.solve`, and f and φ whose parameters may be tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "dapd.torch needs PyTorch, which is not installed; try: pip install 'dapd[torch]'"
    ) from None

from dapd.derivatives import host
from dapd.derivatives.conditions import residual
from dapd.derivatives.data import INDICES, Data, check_shapes, data_of, leaves, rebuilt, with_leaves
from dapd.derivatives.options import NotSolved, SolveOptions, check_options
from dapd.derivatives.records import (
    PRODUCTS,
    LeastSquares,
    Logistic,
    PseudoHuber,
    Quadratic,
    Separable,
    Sparse,
)
from dapd.kinds.by_rows import L1, Box, Interval, NonNegative, Zero
from dapd.kinds.composed import Conjugate, Stack
from dapd.kinds.groups import GroupBall
from dapd.operators.base import Operator

__all__ = [
    "L1",
    "Box",
    "Conjugate",
    "GroupBall",
    "Interval",
    "LeastSquares",
    "Logistic",
    "NonNegative",
    "NotSolved",
    "PseudoHuber",
    "Quadratic",
    "Separable",
    "Solution",
    "Sparse",
    "Stack",
    "Zero",
    "solve",
]


class Solution(NamedTuple):
    """x, the multipliers y of the rows of M, and z of the bounds: ∇f(x) + Mᵀy + z = 0."""

    x: Any
    y: Any
    z: Any


def solve(
    f: Any,
    M: Any,
    b: Any,
    phi: Any = None,
    *,
    bounds: tuple[Any, Any] | None = None,
    failures: str = "raise",
    **options: Any,
) -> Solution:
    """Solve min_x max_y f(x) + yᵀMx − bᵀy − φ(y), differentiably.

    The problem is solved on the CPU, in float64: by Newton steps if it is small and they suffice, else by `dapd.solve`.
    `backward` solves one linear system, that of the optimality conditions. The results have the dtype and the device of
    the tensors. Second derivatives are not available here; `dapd.jax` has them.

    A tensor with one dimension more than its argument can have is a batch: b of shape (batch, rows), c and d of shape
    (batch, …), M, H and A of shape (batch, rows, columns), lower, upper, nu and radius of shape (batch, …). The others
    are shared, and the results have the batch as their first dimension. `dapd.solve_batch` solves it.

    Parameters
    ----------
    f : dapd.torch.Quadratic, LeastSquares, Logistic, PseudoHuber or Separable
        With tensors as parameters. A function of `dapd` itself is a constant.
    M : tensor, array, sparse matrix or `dapd.torch.Sparse`; as a constant, any other map that `dapd.Problem` takes
    b : vector
    phi : dapd.torch.Zero (the default), NonNegative, L1, GroupBall, Box, Interval, Conjugate or Stack
    bounds : pair (lower, upper), optional
        Of x: numbers or vectors, infinite or None if there is none.
    failures : str
        What happens if a solve does not end with the status `optimal`, or its derivative is too large to compute:
        "raise" an error with its message, or return "nan", so the others of a batch are not lost.
    **options
        Of `dapd.solve`: method, tol (1e-8 by default), tol_absolute, max_iterations, time_limit, engine, direct, seed.
    """
    settings = check_options(failures, options)
    data = _tensors(data_of(f, M, b, phi, bounds))
    parts = leaves(data)
    stacked = [tensor.ndim == rank + 1 for tensor, rank in parts]
    sizes = {tensor.shape[0] for (tensor, _), many in zip(parts, stacked, strict=True) if many}
    if len(sizes) > 1:
        raise ValueError(f"the arguments are batches of different sizes, {sorted(sizes)}")
    tensors = [tensor for tensor, _ in parts]
    arrays = [tensor.detach().cpu().numpy() for tensor in tensors]

    def member(k: int, values: list[Any]) -> Data:
        own = [value[k] if many else value for value, many in zip(values, stacked, strict=True)]
        return with_leaves(data, own)  # type: ignore[no-any-return]

    count = sizes.pop() if sizes else 1
    members = [member(k, tensors) for k in range(count)]
    for own in members:
        check_shapes(own)
    points = host.solutions([member(k, arrays) for k in range(count)], settings)
    many = [_one(settings, own, point) for own, point in zip(members, points, strict=True)]
    return Solution(*(torch.stack(several) for several in zip(*many, strict=True))) if any(stacked) else many[0]


def _tensors(data: Data) -> Data:
    """The data as tensors of one dtype, on one device: those of the tensors among them."""
    given = [leaf for leaf, _ in leaves(data) if isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point]
    dtype = torch.float64
    if given:
        dtype = given[0].dtype
        for other in given:
            dtype = torch.promote_types(dtype, other.dtype)
    device = given[0].device if given else None

    def tensor(leaf: Any, rank: int) -> Any:
        # by way of NumPy: torch would round a Python number to float32 first
        found = leaf if isinstance(leaf, torch.Tensor) else torch.as_tensor(np.asarray(leaf))
        if found.is_complex():
            raise TypeError(f"the data must be real numbers, found dtype {found.dtype}")
        return found.to(device) if rank == INDICES else found.to(device, dtype)

    return rebuilt(data, tensor)  # type: ignore[no-any-return]


def _one(settings: SolveOptions, data: Data, point: Any) -> Solution:
    x, w, _ = _Solve.apply(settings, data, point, *(tensor for tensor, _ in leaves(data)))
    rows = data.b.shape[0]
    return Solution(x, w[:rows], w[rows:] if data.lower is not None else torch.zeros_like(x))


class _Solve(torch.autograd.Function):  # type: ignore[misc]  # mypy does not look into torch
    """The point (x, w) and the steps of the prox, which are known already; w is y, or (y, z) if x has bounds."""

    @staticmethod
    def forward(settings: SolveOptions, data: Data, point: Any, *tensors: Any) -> Any:
        return tuple(torch.as_tensor(part).to(data.b) for part in point)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.settings, ctx.data, _, *tensors = inputs
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(*output, *tensors)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        if torch.is_grad_enabled():  # by create_graph=True; the result would silently count as constant
            raise RuntimeError("dapd.torch.solve has no second derivatives; dapd.jax.solve has")
        x, w, steps, *tensors = ctx.saved_tensors
        wanted = ctx.needs_input_grad[3:]
        point = [part.cpu().numpy() for part in (x, w, steps)]
        (solve,) = host.linear_solvers([_numbers(ctx.data, tensors)], [point], ctx.settings, transpose=True)
        weights = solve(*(slope.cpu().double().numpy() for slope in slopes[:2]))
        if np.isnan(weights[0]).any():
            lost = (torch.full_like(tensor, torch.nan) for tensor in tensors)
            return None, None, None, *(nan if want else None for nan, want in zip(lost, wanted, strict=True))
        with torch.enable_grad():
            inputs = [tensor.detach().requires_grad_(want) for tensor, want in zip(tensors, wanted, strict=True)]
            left = torch.cat(residual(torch, with_leaves(ctx.data, inputs), x, w, steps))
            total = -(left @ torch.cat([torch.as_tensor(part).to(x) for part in weights]))
        by = [tensor for tensor in inputs if tensor.requires_grad]
        gradients = iter(torch.autograd.grad(total, by, allow_unused=True))
        return None, None, None, *(next(gradients) if want else None for want in wanted)


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """Mv of a map that only has products, in NumPy."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, v: Any) -> Any:
        ctx.operator = operator
        return torch.as_tensor(operator.forward(v.detach().cpu().double().numpy())).to(v)

    @staticmethod
    def backward(ctx: Any, slope: Any) -> Any:
        return None, _Product.apply(ctx.operator.transposed(), slope)


PRODUCTS["torch"] = _Product.apply


def _numbers(data: Data, tensors: Any) -> Data:
    """The data as NumPy arrays."""
    return with_leaves(data, [tensor.detach().cpu().numpy() for tensor in tensors])  # type: ignore[no-any-return]
