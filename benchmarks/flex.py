"""Other ways to attend with a bias: FlexAttention, and ALiBi folded into channels of q and k."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from poslab.positions import PositionEncoding, Positions
from poslab.positions.ops import slopes

from .step import allow_many_models

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]  # q, k, v (B, H, T, D) -> (B, H, T, D), causal
ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

SPLIT = 256  # positions up to here are exact in bfloat16


def score_mod(encoding: PositionEncoding, length: int, device: str) -> ScoreMod:
    """The bias of a causal encoding as FlexAttention wants it: of one cell, from its indices.

    Where only the offset counts, the last query's row holds all of them, and no (T, T) tensor is made.
    """
    pos = Positions.line(length, device=device)
    if not encoding.shift_invariant:
        cells = encoding.bias(pos, pos)
        assert cells is not None
        return lambda score, batch, head, q, k: score + cells[head, q, k]
    row = encoding.bias(Positions.line(1, length - 1, length, device), pos)
    assert row is not None
    offsets = row[:, 0].flip(-1).contiguous()
    return lambda score, batch, head, q, k: score + offsets[head, (q - k).abs()]


def by_flex(encoding: PositionEncoding, length: int, device: str, compiled: bool) -> Attend:
    """FlexAttention; the bias is made anew in every call, as in training."""
    if compiled:
        allow_many_models()
    mask = create_block_mask(lambda batch, head, q, k: q >= k, None, None, length, length, device=device)
    kernel = torch.compile(flex_attention, dynamic=False) if compiled else flex_attention

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return kernel(q, k, v, score_mod=score_mod(encoding, length, device), block_mask=mask)

    return attend


def by_mask(encoding: PositionEncoding, length: int, device: str) -> Attend:
    """SDPA with the bias as a mask."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, causal_bias(encoding, length, device).to(q.dtype))

    return attend


def causal_bias(encoding: PositionEncoding, length: int, device: str) -> Tensor:
    """(1, H, T, T): the bias, and -inf in the future."""
    pos = Positions.line(length, device=device)
    bias = encoding.bias(pos, pos)
    assert bias is not None
    future = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
    return bias.masked_fill(future, float("-inf"))[None]


def folded_alibi(heads: int, length: int, device: str) -> Attend:
    """-m (i - j) as channels of q and k: the part m i is the same in a whole row, and softmax does not see it.

    In half precision slope and position are each the sum of two parts, of which the products are nearly exact.
    """

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        width = q.shape[-1]
        slope = slopes(heads).to(device)[:, None, None] * width**0.5
        position = torch.arange(length, device=device)[:, None]
        coarse = slope.to(q.dtype)
        fine = (slope - coarse.float()).to(q.dtype)
        high, low = (part.to(q.dtype) for part in (position // SPLIT * SPLIT, position % SPLIT))
        of_q = torch.cat((coarse, coarse, fine, fine), dim=-1).expand(heads, length, 4)
        of_k = torch.cat((high, low, high, low), dim=-1).expand(heads, length, 4)
        q, k = beside(q, of_q), beside(k, of_k)
        y = F.scaled_dot_product_attention(q, k, F.pad(v, (0, 8)), is_causal=True, scale=width**-0.5)
        return y[..., :width]

    return attend


def beside(x: Tensor, more: Tensor) -> Tensor:
    """(B, H, T, D + 8): four more channels (H, T, 4), and four of zeros, since kernels want multiples of eight."""
    return torch.cat((x, F.pad(more, (0, 4)).expand(len(x), -1, -1, -1)), dim=-1)


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Fused and without a bias."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)
