"""Solutions that PyTorch can differentiate: `dapd.torch.solve`, and f and φ whose parameters may be tensors."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "dapd.torch needs PyTorch, which is not installed; try: pip install 'dapd[torch]'"
    ) from None

from dapd.derivatives import front, host
from dapd.derivatives.data import INDICES, Data, check_shapes, leaves, rebuilt, with_leaves
from dapd.derivatives.front import *  # noqa: F403
from dapd.derivatives.records import PRODUCTS
from dapd.operators.base import Operator

__all__ = ["solve"]
__all__ += front.__all__


def _solve(settings: front.SolveOptions, data: Data) -> front.Solution:
    data = _tensors(data)
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
    return front.Solution(*(torch.stack(several) for several in zip(*many, strict=True))) if any(stacked) else many[0]


solve = front.Front(_solve).solve


def _tensors(data: Data) -> Data:
    """The data as tensors of one dtype, on one device: those of the tensors among them."""
    given = [leaf for leaf, _ in leaves(data) if isinstance(leaf, torch.Tensor) and leaf.dtype.is_floating_point]
    dtype = reduce(torch.promote_types, (leaf.dtype for leaf in given)) if given else torch.float64
    device = given[0].device if given else None

    def tensor(leaf: Any, rank: int) -> Any:
        # by way of NumPy: torch would round a Python number to float32 first
        found = leaf if isinstance(leaf, torch.Tensor) else torch.as_tensor(np.asarray(leaf))
        if found.is_complex():
            raise TypeError(f"the data must be real numbers, found dtype {found.dtype}")
        return found.to(device) if rank == INDICES else found.to(device, dtype)

    return rebuilt(data, tensor)  # type: ignore[no-any-return]


def _one(settings: front.SolveOptions, data: Data, point: Any) -> front.Solution:
    x, w, _ = _Solve.apply(settings, data, point, *(tensor for tensor, _ in leaves(data)))
    return front.Solution.of(data, x, w)


class _Solve(torch.autograd.Function):  # type: ignore[misc]  # mypy does not look into torch
    """The point (x, w) and the steps of the prox, which are known already; w is y, or (y, z) if x has bounds."""

    @staticmethod
    def forward(settings: front.SolveOptions, data: Data, point: Any, *tensors: Any) -> Any:
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
        data = with_leaves(ctx.data, [tensor.detach().cpu().numpy() for tensor in tensors])
        (solve,) = host.linear_solvers([data], [point], ctx.settings, transpose=True)
        weights = solve(torch.cat(slopes[:2]).cpu().double().numpy())
        if np.isnan(weights).any():
            lost = (torch.full_like(tensor, torch.nan) for tensor in tensors)
            return None, None, None, *(nan if want else None for nan, want in zip(lost, wanted, strict=True))
        with torch.enable_grad():
            inputs = [tensor.detach().requires_grad_(want) for tensor, want in zip(tensors, wanted, strict=True)]
            left = torch.cat(with_leaves(ctx.data, inputs).residual(x, w, steps))
            total = -(left @ torch.as_tensor(weights).to(x))
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
