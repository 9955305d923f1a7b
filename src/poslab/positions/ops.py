"""The arithmetic that several encodings share, as pure functions. Shapes as in `base.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, get_args, get_type_hints

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Positions, Spec

Pairs = Literal["adj", "half"]
Seen = Literal["all", "past", "future"]


def check_choices(owner: object, values: dict[str, Any]) -> None:
    """Refuse a word that the `Literal` annotation of `owner.__init__` does not list.

    Raises ValueError with the word, the key and the choices.
    """
    hints = get_type_hints(type(owner).__init__)
    for name, value in values.items():
        choices = get_args(hints[name])
        if value not in choices:
            raise ValueError(f"{name}={value} is not one of {', '.join(map(str, choices))}.")


def check_even_head(spec: Spec) -> None:
    """ValueError for a head that cannot be taken in pairs."""
    if spec.head_dim % 2:
        raise ValueError(f"Rotation turns pairs of channels: a head of {spec.head_dim} is odd, choose an even one.")


def check_head_of_four(spec: Spec, why: str) -> None:
    """ValueError, which begins with `why`, for a head that cannot be taken in two sets of pairs."""
    if spec.head_dim % 4:
        raise ValueError(
            f"{why}: a head of {spec.head_dim} is not divisible by 4, choose dim and heads so that dim / heads is."
        )


def frequencies(width: int, theta: float, endpoint: bool = False) -> Tensor:
    """(width / 2,) float64: theta^(-2i/width), or ending at 1/theta exactly where `endpoint`."""
    count = width // 2
    exponent = torch.arange(count, dtype=torch.float64) / (max(count - 1, 1) if endpoint else count)
    return theta**-exponent


def angles(coordinate: Tensor, frequency: Tensor) -> Tensor:
    """(T, F) float64 position times frequency: exact enough for positions in the millions."""
    return coordinate.to(torch.float64)[:, None] * frequency.to(coordinate.device)


def sines(turns: Tensor, interleaved: bool) -> Tensor:
    """(T, 2F) of angles (T, F): sin, cos, sin, cos, ... of one after the other, or all sines before all cosines."""
    if interleaved:
        return torch.stack((turns.sin(), turns.cos()), dim=-1).flatten(-2)
    return torch.cat((turns.sin(), turns.cos()), dim=-1)


def stretch(table: Tensor, size: int, align_corners: bool) -> Tensor:
    """(size, C) float32: a table (N, C) at another number of rows, linear between neighbours.

    `align_corners` keeps the first and the last row, else rows are the middles of equal cells.
    """
    rows = table.float().T[None]
    return F.interpolate(rows, size=size, mode="linear", align_corners=align_corners)[0].T


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
    values = value(line_offsets(q_pos, k_pos))
    index = offset(q_pos, k_pos) - (q_pos.start - k_pos.start - len(k_pos) + 1)
    return values.index_select(1, index.flatten()).unflatten(1, index.shape)


def line_offsets(q_pos: Positions, k_pos: Positions) -> Tensor:
    """(Q + K - 1,) every offset n = q - k between positions on two lines, ascending."""
    assert q_pos.start is not None and k_pos.start is not None
    first = q_pos.start - k_pos.start - len(k_pos) + 1
    return torch.arange(first, first + len(q_pos) + len(k_pos) - 1, device=q_pos.device)


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


def dot_rows(x: Tensor, table: Tensor, index: Tensor) -> Tensor:
    """(B, H, Q, K): x_i . table[index[i, j]], from x (B, H, Q, D), a table (R, D) or (H, R, D), integers (Q, K).

    For tables of few rows: x meets each row once, and cells pick theirs.
    """
    products = x @ table.to(x.dtype).mT
    return products.gather(-1, index.expand(*products.shape[:-1], -1))


def dot_offsets(
    x: Tensor, vectors: Callable[[Tensor], Tensor], q_pos: Positions, k_pos: Positions, seen: Seen = "all"
) -> Tensor:
    """(B, H, Q, K): x_i . vectors(n) with n = q_i - k_j, from x (B, H, Q, D).

    `vectors` maps integers n of shape (N,) to (N, D), or to (H, N, D) where heads have their own. On a
    line only Q + K - 1 offsets occur: x meets each once, and `shifted_rows` picks. Of a causal model half of
    them are enough: n >= 0 in `seen: past`, n <= 0 in `future`, where x are the keys; other cells then hold
    any finite number. Where rows are many and columns few, as for all keys against a strip of queries, blocks of K
    rows meet the 2K - 1 offsets that occur in them. `dot_offsets_reference` is the plain form, with a vector
    for each cell.
    """
    if q_pos.start is None or k_pos.start is None:
        return dot_offsets_reference(x, vectors, q_pos, k_pos)
    rows, columns = len(q_pos), len(k_pos)
    start = q_pos.start - k_pos.start
    smallest, largest = start - columns + 1, start + rows - 1
    if rows <= columns:
        if seen == "past" and largest >= 0:
            smallest = min(0, largest - columns + 1)
        elif seen == "future" and smallest <= 0:
            largest = max(0, smallest + columns - 1)
    count = largest - smallest + 1
    found = vectors(largest - torch.arange(count, device=x.device)).to(x.dtype)
    if rows <= columns:
        return shifted_rows(x @ F.pad(found, (0, 0, 0, 1)).mT, largest - start)[..., :columns]
    missing = -rows % columns  # rows of the last block, in front of the descending offsets
    blocks = F.pad(x, (0, 0, 0, missing)).unflatten(-2, (-1, columns))  # (B, H, blocks, K, D)
    windows = F.pad(found, (0, 0, missing, 1)).unfold(-2, 2 * columns, columns).flip(-3)  # (..., blocks, D, 2K)
    return shifted_rows(blocks @ windows, columns - 1)[..., :columns].flatten(-3, -2)[..., :rows, :]


def both_views(spec: Spec) -> tuple[Seen, Seen]:
    """What `dot_offsets` has to know of the offsets when x are the queries, and when x are the keys."""
    return ("past", "future") if spec.causal else ("all", "all")


def dot_offsets_reference(x: Tensor, vectors: Callable[[Tensor], Tensor], q_pos: Positions, k_pos: Positions) -> Tensor:
    """(B, H, Q, K): every cell on its own."""
    n = offset(q_pos, k_pos)
    cells = vectors(n.flatten()).to(x.dtype).unflatten(-2, n.shape)  # (..., Q, K, D)
    return (x[..., None, :] @ cells.mT).squeeze(-2)


def shifted_rows(products: Tensor, begin: int) -> Tensor:
    """(..., R, N): row i of products (..., R, N + 1) from place begin - i on, for begin <= R.

    The shift of Transformer-XL (Dai et al. 2019, appendix B): in memory each row starts one number earlier than
    a row of N would, so the result is a view. Before the first and beyond the last place of a row it shows its
    neighbours.
    """
    rows, width = products.shape[-2], products.shape[-1] - 1
    return products.flatten(-2)[..., begin : begin + rows * width].unflatten(-1, (rows, width))


def recentred(table: Tensor, rows: int) -> Tensor:
    """(rows, C) of a table (R, C) of offsets around R // 2: the middle, its ends repeated where more are wanted."""
    index = torch.arange(rows, device=table.device) - rows // 2 + len(table) // 2
    return table[index.clamp(0, len(table) - 1)]


def slopes(heads: int) -> Tensor:
    """(H,) float32 ALiBi slopes: 2^(-8h/H) for a power of two; else those of the power of two
    below, then every second slope of the power of two above (Press et al. 2022, authors' code)."""
    closest = 2 ** math.floor(math.log2(heads))
    exact = [2 ** (-8 * h / closest) for h in range(1, closest + 1)]
    between = [2 ** (-4 * h / closest) for h in range(1, 2 * closest, 2)]
    return torch.tensor((exact + between)[:heads])
