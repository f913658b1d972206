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

from dapd.implicit import host
from dapd.implicit.conditions import residual
from dapd.implicit.convert import INDICES, Data, check_shapes, data_of, leaves, rebuilt, with_leaves
from dapd.implicit.options import Settings, check_settings
from dapd.implicit.records import (
    L1,
    Box,
    Conjugate,
    GroupBall,
    Interval,
    LeastSquares,
    Logistic,
    NonNegative,
    PseudoHuber,
    Quadratic,
    Separable,
    Sparse,
    Stack,
    Zero,
)

__all__ = [
    "L1",
    "Box",
    "Conjugate",
    "GroupBall",
    "Interval",
    "LeastSquares",
    "Logistic",
    "NonNegative",
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

    The problem is solved by `dapd.solve` on the CPU, in float64, followed by Newton steps as long as they improve the
    certificate. `backward` solves one linear system, of the optimality conditions, per problem. The results have the dtype and
    the device of the tensors. Second derivatives are not available here; `dapd.jax` has them.

    A tensor with one dimension more than its argument can have is a batch: b of shape (batch, rows), c and d of shape
    (batch, …), M, H and A of shape (batch, rows, columns), lower, upper, nu and radius of shape (batch, …). The others
    are shared, and the results have the batch as their first dimension.

    Parameters
    ----------
    f : dapd.torch.Quadratic, LeastSquares, Logistic, PseudoHuber or Separable
        With tensors as parameters. A function of `dapd` itself is a constant.
    M : tensor, array, SciPy sparse matrix or `dapd.torch.Sparse`
    b : vector
    phi : dapd.torch.Zero (the default), NonNegative, L1, GroupBall, Box, Interval, Conjugate or Stack
    bounds : pair (lower, upper), optional
        Of x: numbers or vectors, infinite or None if there is none.
    failures : str
        What a solve does that does not end with the status `optimal`: "raise" an error with its message, or return
        "nan", so the others of a batch are not lost.
    **options
        Of `dapd.solve`: method, tol (1e-8 by default), tol_absolute, max_iterations, time_limit, engine, direct, seed.
    """
    settings = check_settings(failures, options)
    data = _tensors(data_of(f, M, b, phi, bounds))
    parts = leaves(data)
    sizes = {tensor.shape[0] for tensor, rank in parts if tensor.ndim == rank + 1}
    if len(sizes) > 1:
        raise ValueError(f"the arguments are batches of different sizes, {sorted(sizes)}")
    if not sizes:
        return _one(settings, data)
    many = [
        _one(settings, with_leaves(data, [tensor[k] if tensor.ndim == rank + 1 else tensor for tensor, rank in parts]))
        for k in range(sizes.pop())
    ]
    return Solution(*(torch.stack(several) for several in zip(*many, strict=True)))


def _tensors(data: Data) -> Data:
    """The data as tensors of one dtype, on one device: those of the tensors among them."""
    given = [leaf for leaf, _ in leaves(data) if isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point]
    dtype = torch.float64
    if given:
        dtype = given[0].dtype
        for tensor in given:
            dtype = torch.promote_types(dtype, tensor.dtype)
    device = given[0].device if given else None

    def tensor(leaf: Any, rank: int) -> Any:
        found = torch.as_tensor(leaf, device=device)
        if found.is_complex():
            raise TypeError(f"the data must be real numbers, found dtype {found.dtype}")
        return found if rank == INDICES else found.to(dtype)

    return rebuilt(data, tensor)  # type: ignore[no-any-return]


def _one(settings: Settings, data: Data) -> Solution:
    check_shapes(data)
    x, w = _Solve.apply(settings, data, *(tensor for tensor, _ in leaves(data)))
    rows = data.b.shape[0]
    return Solution(x, w[:rows], w[rows:] if data.lower is not None else torch.zeros_like(x))


class _Solve(torch.autograd.Function):  # type: ignore[misc]  # mypy does not look into torch
    """X and w, which is y, or (y, z) if x has bounds."""

    @staticmethod
    def forward(settings: Settings, data: Data, *tensors: Any) -> Any:
        rows, columns = data.M.shape
        try:
            found = host.solution(host.problem_of(_numbers(data, tensors)), dict(settings.options), None)
        except host.NotSolved:
            if settings.failures == "raise":
                raise
            found = np.full(columns, np.nan), np.full(rows + (data.lower is not None) * columns, np.nan)
        return tuple(torch.as_tensor(part).to(data.b) for part in found)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.data, *tensors = inputs
        ctx.save_for_backward(*output, *tensors)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *slopes: Any) -> Any:
        x, w, *tensors = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        if torch.isnan(x).any():
            return None, None, *(torch.full_like(t, torch.nan) if want else None for t, want in zip(tensors, wanted, strict=True))
        point = (part.detach().cpu().double().numpy() for part in (x, w))
        linear = host.Linearised(host.problem_of(_numbers(ctx.data, tensors)), *point)
        weights = linear.solve_transpose(*(slope.cpu().double().numpy() for slope in slopes))
        with torch.enable_grad():
            inputs = [t.detach().requires_grad_(want) for t, want in zip(tensors, wanted, strict=True)]
            left = residual(torch, with_leaves(ctx.data, inputs), x.detach(), w.detach())
            gradients = iter(
                torch.autograd.grad(
                    left,
                    [t for t, want in zip(inputs, wanted, strict=True) if want],
                    [-torch.as_tensor(part).to(x) for part in weights],
                    allow_unused=True,
                )
            )
        return None, None, *(next(gradients) if want else None for want in wanted)


def _numbers(data: Data, tensors: Any) -> Data:
    """The data as NumPy arrays."""
    return with_leaves(data, [tensor.detach().cpu().numpy() for tensor in tensors])  # type: ignore[no-any-return]
