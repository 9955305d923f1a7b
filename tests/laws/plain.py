"""Attention as a reader would write it first: the reference beside every kernel of Frame."""

from __future__ import annotations

import torch
from torch import Tensor

from poslab.positions import PositionEncoding, Positions


def scores(
    encoding: PositionEncoding, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions, prefix: int = 0
) -> Tensor:
    """(B, H, prefix + Q, prefix + K) logits of turned q and k, -inf where a causal model may not look."""
    scale = encoding.spec.head_dim**-0.5 if encoding.scale is None else encoding.scale
    logits = scale * torch.einsum("bhqd,bhkd->bhqk", q, k)
    patches = logits[:, :, prefix:, prefix:]
    bias = encoding.bias(q_pos, k_pos)
    if bias is not None:
        patches = patches + bias
    content = encoding.content_bias(q[:, :, prefix:], k[:, :, prefix:], q_pos, k_pos)
    if content is not None:
        patches = patches + content
    logits = logits.clone()
    logits[:, :, prefix:, prefix:] = patches  # the rows and columns of the prefix get no bias
    if encoding.spec.causal:
        for i, here in enumerate(q_pos.axis(0)):
            for j, there in enumerate(k_pos.axis(0)):
                if there > here:
                    logits[:, :, i, j] = float("-inf")
    return logits


def attention(
    encoding: PositionEncoding,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    q_pos: Positions,
    k_pos: Positions | None = None,
    prefix: int = 0,
) -> Tensor:
    """softmax(scores) v, turned back; q, k, v (B, H, prefix + T, D) already turned."""
    y = scores(encoding, q, k, q_pos, q_pos if k_pos is None else k_pos, prefix).softmax(-1) @ v
    return torch.cat((y[:, :, :prefix], encoding.unrotate(y[:, :, prefix:], q_pos)), dim=2)
