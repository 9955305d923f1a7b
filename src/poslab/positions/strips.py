"""Attention with a bias on a CPU, a strip of queries at a time.

PyTorch's fused kernel knows no gradient of a bias, and its plain path keeps every probability of every layer for
the backward pass. Here the forward pass is the fused kernel, and the backward pass makes the probabilities of
a strip again, uses them while the cache holds them, and forgets them. A causal model meets only the keys that a
strip can see, half of them in all. A bias that is one function of the offset (`OffsetBias`) stays the vector it is:
no (Q, K) is ever made of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor

FORWARD_ROWS, BACKWARD_ROWS = 128, 96  # of a strip: the fused kernel has a loop of its own, the products do not
MADE_ROWS = 32  # to make with all that their gradient needs
CACHED = 1 << 19  # scores of a strip to work on at once: 2 MiB in float32


def fits(q: Tensor, dropout: float) -> bool:
    """Whether this is the place: eager on a CPU in float32 or better, without dropout of the probabilities."""
    eager = not torch.compiler.is_compiling()
    return eager and q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64) and not dropout


Make = Callable[[int, int, int], Tensor]  # of first, last, keys: (1, H, last - first, keys)
Bias = Tensor | Make


def attend(
    q: Tensor, k: Tensor, v: Tensor, bias: Bias, scale: float, shift: int | None, parameters: Sequence[Tensor] = ()
) -> Tensor:
    """softmax(scale * q.k + bias) v: (B, H, Q, D) of q (B, H, Q, D), k and v (B, H, K, D).

    `bias`: (B or 1, H or 1, Q, K), or (H, Q + K - 1), of which query i and key j add number Q - 1 - i + j; or what
    makes it of `parameters` for each strip, and again for the gradient.
    `shift`: query i sees the keys j <= i + shift, at least one; None: all keys.
    """
    return Strips.apply(q, k, v, bias, scale, shift, *parameters)


class Strips(torch.autograd.Function):
    """`attend`, and its gradients (first derivatives only)."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Bias,
        scale: float,
        shift: int | None,
        *parameters: Tensor,
    ) -> Tensor:
        batch, heads, rows, width = q.shape
        y = q.new_empty(batch, rows, heads, width).transpose(1, 2)  # in memory as the output map wants it
        if vector := is_vector(bias):
            bias = ended(bias, rows, shift)
        for first in range(0, rows, FORWARD_ROWS):
            last = min(first + FORWARD_ROWS, rows)
            keys = seen(last, k.shape[-2], shift)
            strip = strip_of(bias, first, last, rows, keys).to(q.dtype)
            if shift is not None and not vector:
                strip = strip.clone()
                hide(strip, first, shift)
            found = F.scaled_dot_product_attention(
                upturned(q[:, :, first:last], vector), k[:, :, :keys], v[:, :, :keys], strip, scale=scale
            )
            y[:, :, first:last] = upturned(found, vector)
        made = not isinstance(bias, Tensor)
        ctx.save_for_backward(q, k, v, None if made else bias, y, *parameters)
        ctx.scale, ctx.shift, ctx.make = scale, shift, bias if made else None
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, y, *parameters = ctx.saved_tensors
        bias = ctx.make or bias
        batch, heads, rows, _ = q.shape
        vector = is_vector(bias)
        own = ctx.make is None and not vector and bias.shape[0] == batch > 1  # a bias for each sample
        dbias = torch.zeros_like(bias) if ctx.needs_input_grad[3] else None
        dparameters = [torch.zeros_like(each) for each in parameters]
        delta = upturned((dy * y).sum(-1, keepdim=True), vector)
        q, dy = upturned(ctx.scale * q, vector).contiguous(), upturned(dy, vector).contiguous()
        k, v = k.contiguous(), v.contiguous()  # once, and not in each product
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        rooms = [q.new_empty(0) for _ in range(2)]  # for scores: memory that is new costs as much as a product
        for first in range(0, rows, BACKWARD_ROWS):
            last = min(first + BACKWARD_ROWS, rows)
            keys = seen(last, k.shape[-2], ctx.shift)
            strip = strip_of(bias, first, last, rows, keys).to(q.dtype)
            here = slice(rows - last, rows - first) if vector else slice(first, last)
            at_once = max(1, CACHED // (heads * (last - first) * keys))
            dstrip: Tensor | None = None
            for sample in range(0, batch, at_once):
                some = slice(sample, sample + at_once)
                q_, dy_, k_, v_ = q[some, :, here], dy[some, :, here], k[some, :, :keys], v[some, :, :keys]
                p = product(q_, k_.mT, rooms[0]).add_(strip[some] if own else strip)
                if ctx.shift is not None and not vector:
                    hide(p, first, ctx.shift)
                torch.softmax(p, -1, out=p)
                ds = product(dy_, v_.mT, rooms[1]).sub_(delta[some, :, here]).mul_(p)
                dv[some, :, :keys] += p.mT @ dy_
                dk[some, :, :keys] += ds.mT @ q_
                dq[some, :, here] = ds @ k_
                if own and dbias is not None:
                    add_strip(dbias[some], ds, first, last, rows)
                elif dbias is not None or parameters:
                    total = ds.sum(0, keepdim=True)
                    dstrip = total if dstrip is None else dstrip.add_(total)
            if dbias is not None and dstrip is not None:
                add_strip(dbias, dstrip, first, last, rows)
            elif dstrip is not None:
                add_made(dparameters, ctx.make, parameters, dstrip, first, keys)
        return upturned(dq.mul_(ctx.scale), vector), dk, dv, dbias, None, None, *dparameters


def product(a: Tensor, b: Tensor, room: Tensor) -> Tensor:
    """a @ b for a (B, H, R, D) and b (B, H, D, K), in the memory of `room`, which grows as it must."""
    shape = (*a.shape[:-1], b.shape[-1])
    if room.numel() < math.prod(shape):
        room.resize_(math.prod(shape))
    found = room[: math.prod(shape)].view(shape)
    torch.bmm(a.flatten(0, 1), b.flatten(0, 1), out=found.flatten(0, 1))
    return found


def seen(last: int, keys: int, shift: int | None) -> int:
    """How many keys, from the first on, the rows before `last` see."""
    return keys if shift is None else min(keys, last + shift)


def is_vector(bias: Bias) -> TypeGuard[Tensor]:
    return isinstance(bias, Tensor) and bias.ndim == 2


def ended(bias: Tensor, rows: int, shift: int | None) -> Tensor:
    """A vector with -inf at the offsets of keys that no query sees."""
    if shift is None:
        return bias
    return bias.masked_fill(torch.arange(bias.shape[1]) > rows - 1 + shift, float("-inf"))


def upturned(rows: Tensor, vector: bool) -> Tensor:
    """Rows (..., R, D), the last first where the bias is a vector: its windows then follow each other in memory."""
    return rows.flip(-2) if vector else rows


def strip_of(bias: Bias, first: int, last: int, rows: int, keys: int) -> Tensor:
    """(B or 1, H or 1, last - first, keys) of a bias, made, or without a copy; of a vector with the last row first."""
    if not isinstance(bias, Tensor):  # what is made on the way to it stays in the cache
        firsts = range(first, last, MADE_ROWS)
        return torch.cat([bias(row, min(row + MADE_ROWS, last), keys) for row in firsts], dim=2)
    if bias.ndim == 4:
        return bias[:, :, first:last, :keys]
    return bias[None, :, rows - last : rows - first + keys - 1].unfold(2, keys, 1)


def hide(scores: Tensor, first: int, shift: int) -> None:
    """-inf where a query, of which the first is number `first`, does not see the key."""
    size, keys = scores.shape[-2:]
    begin = max(first + shift, 0)  # all rows see the keys before
    row, column = torch.arange(first, first + size), torch.arange(begin, keys)
    scores[..., begin:].masked_fill_(column > row[:, None] + shift, float("-inf"))


def add_strip(dbias: Tensor, ds: Tensor, first: int, last: int, rows: int) -> None:
    """Add the gradient ds (B or 1, H, last - first, keys) of a strip to that of the bias it was made of."""
    size, keys = ds.shape[-2:]
    if dbias.ndim == 4:
        dbias[:, :, first:last, :keys] += ds if dbias.shape[1] == ds.shape[1] else ds.sum(1, keepdim=True)
        return
    # row n belongs n numbers further: as in rows that are one shorter than they were padded to
    moved = F.pad(ds[0], (0, size)).flatten(1)[:, : size * (size + keys - 1)].unflatten(1, (size, -1))
    dbias[:, rows - last : rows - first + keys - 1] += moved.sum(1)


def add_made(
    gradients: Sequence[Tensor], make: Make, parameters: Sequence[Tensor], ds: Tensor, first: int, keys: int
) -> None:
    """Add what the gradient ds (1, H, R, keys) of a strip that begins at row `first` says of `parameters`."""
    for row in range(0, ds.shape[-2], MADE_ROWS):
        some = ds[:, :, row : row + MADE_ROWS]
        with torch.enable_grad():
            made = make(first + row, first + row + some.shape[-2], keys)
        found = torch.autograd.grad(made, parameters, some.to(made.dtype), allow_unused=True)
        for gradient, part in zip(gradients, found, strict=True):
            if part is not None:
                gradient += part
