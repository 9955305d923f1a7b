"""The arithmetic that several encodings share, as pure functions. Shapes as in `base.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, get_args, get_type_hints

import torch
from torch import Tensor, nn

from .base import Positions

Pairs = Literal["adj", "half"]


def check_choices(owner: object, values: dict[str, Any]) -> None:
    """Refuse a word that the `Literal` annotation of `owner.__init__` does not list.

    Raises ValueError with the word, the key and the choices.
    """
    hints = get_type_hints(type(owner).__init__)
    for name, value in values.items():
        choices = get_args(hints[name])
        if value not in choices:
            raise ValueError(f"{name}={value} is not one of {', '.join(map(str, choices))}.")


def frequencies(width: int, theta: float, endpoint: bool = False) -> Tensor:
    """(width / 2,) float64: theta^(-2i/width), or ending at 1/theta exactly where `endpoint`."""
    count = width // 2
    exponent = torch.arange(count, dtype=torch.float64) / (max(count - 1, 1) if endpoint else count)
    return theta**-exponent


def angles(coordinate: Tensor, frequency: Tensor) -> Tensor:
    """(T, F) float64 position times frequency: exact enough for positions in the millions."""
    return coordinate.to(torch.float64)[:, None] * frequency.to(coordinate.device)


def turn(x: Tensor, cos: Tensor, sin: Tensor, pairs: Pairs) -> Tensor:
    """Rotate the first 2R channels of x (..., T, D) by the angles behind cos and sin (..., T, R).

    "adj" pairs channels (2c, 2c + 1), "half" pairs (c, c + R); the other channels stay bit-exact.
    The arithmetic is float32 or better, the result has the dtype of x.
    """
    width = 2 * cos.shape[-1]
    head = x[..., :width]
    if pairs == "adj":
        if x.dtype == torch.float32 and x.device.type == "cpu" and not torch.compiler.is_compiling():
            # eager on a CPU: one complex product beats four real ones and a stack by a third
            complex_head = torch.view_as_complex(head.unflatten(-1, (-1, 2)))
            turned = torch.view_as_real(complex_head * torch.complex(cos, sin)).flatten(-2)
        else:
            a, b = head[..., 0::2], head[..., 1::2]
            turned = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
    else:
        a, b = head.chunk(2, dim=-1)
        turned = torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)
    turned = turned.to(x.dtype)
    return turned if width == x.shape[-1] else torch.cat((turned, x[..., width:]), dim=-1)


def offset(q_pos: Positions, k_pos: Positions, axis: int = 0) -> Tensor:
    """(Q, K) integers n = query position minus key position along one axis."""
    return q_pos.axis(axis)[:, None] - k_pos.axis(axis)[None, :]


def distance(q_pos: Positions, k_pos: Positions) -> Tensor:
    """(Q, K) float32 Euclidean distance; |n| on one axis."""
    squares = sum(offset(q_pos, k_pos, axis).square() for axis in range(q_pos.axes))
    return torch.as_tensor(squares).to(torch.float32).sqrt()


def from_offsets(value: Callable[[Tensor], Tensor], q_pos: Positions, k_pos: Positions) -> Tensor:
    """(H, Q, K) from `value`, which maps integers n = q - k of any shape (N,) to (H, N).

    On a line only Q + K - 1 offsets occur: each is evaluated once, and cells pick theirs.
    `from_offsets_reference` is the plain form. (A sliding view of the vector would save the index,
    but has a slower backward, and a compiler ties it to one length.)
    """
    if q_pos.start is None or k_pos.start is None:
        return from_offsets_reference(value, q_pos, k_pos)
    first, last = q_pos.start - (k_pos.start + len(k_pos) - 1), q_pos.start + len(q_pos) - 1 - k_pos.start
    values = value(torch.arange(first, last + 1, device=q_pos.device))
    index = offset(q_pos, k_pos) - first
    return values.index_select(1, index.flatten()).unflatten(1, index.shape)


def from_offsets_reference(value: Callable[[Tensor], Tensor], q_pos: Positions, k_pos: Positions) -> Tensor:
    """(H, Q, K): every cell on its own."""
    n = offset(q_pos, k_pos)
    return value(n.flatten()).unflatten(1, n.shape)


def from_grid_offsets(value: Callable[[Tensor, Tensor], Tensor], q_pos: Positions, k_pos: Positions) -> Tensor:
    """(H, Q, K) from `value`, which maps integers dy, dx = q - k, of shapes that broadcast, to (H, *shape).

    On a grid of R rows and C columns only (2R - 1)(2C - 1) offsets occur: each is evaluated once, and
    cells pick theirs. `from_grid_offsets_reference` is the plain form.
    """
    rows, columns = (max(q_pos.extent[axis], k_pos.extent[axis]) for axis in (0, 1))
    dy = torch.arange(1 - rows, rows, device=q_pos.device)[:, None]
    dx = torch.arange(1 - columns, columns, device=q_pos.device)[None, :]
    values = value(dy, dx).flatten(1)
    index = (offset(q_pos, k_pos, 0) + rows - 1) * (2 * columns - 1) + offset(q_pos, k_pos, 1) + columns - 1
    return values.index_select(1, index.flatten()).unflatten(1, index.shape)


def from_grid_offsets_reference(
    value: Callable[[Tensor, Tensor], Tensor], q_pos: Positions, k_pos: Positions
) -> Tensor:
    """(H, Q, K): every cell on its own."""
    return value(offset(q_pos, k_pos, 0), offset(q_pos, k_pos, 1))


def perceptron(x: Tensor, first: nn.Linear, second: nn.Linear) -> Tensor:
    """(H, *S) = second(relu(first(x))) for x (F, *S), where `second` has no bias.

    In float32, also under autocast and with parameters in half precision.
    """
    with torch.autocast(x.device.type, enabled=False):
        hidden = torch.addmm(first.bias.float()[:, None], first.weight.float(), x.flatten(1)).relu_()
        return (second.weight.float() @ hidden).unflatten(1, x.shape[1:])


def slopes(heads: int) -> Tensor:
    """(H,) float32 ALiBi slopes: 2^(-8h/H) for a power of two; else those of the power of two
    below, then every second slope of the power of two above (Press et al. 2022, authors' code)."""
    closest = 2 ** math.floor(math.log2(heads))
    exact = [2 ** (-8 * h / closest) for h in range(1, closest + 1)]
    between = [2 ** (-4 * h / closest) for h in range(1, 2 * closest, 2)]
    return torch.tensor((exact + between)[:heads])
