"""Relative position representations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import dot_rows, offset


class Shaw(PositionEncoding):
    """score(i, j) += q_i . a[clip(j - i, -K, K)] / sqrt(D),  a: 2K + 1 learned vectors a layer.

    Shaw, Uszkoreit & Vaswani 2018, "Self-Attention with Relative Position Representations",
    equation 4 and section 3.2: the query asks how far the key is, up to K, and heads share
    the vectors. Farther keys all look K away, so any length is computable.

    The paper's second term, which adds vectors to the values (equation 3), needs the attention
    probabilities and is left out; its own ablation (table 3) finds the key term
    alone sufficient. The paper gives no starting distribution; here N(0, init_std^2).
    """

    shift_invariant = unbounded = True
    per_layer = True
    axes = 1

    def __init__(self, spec: Spec, clip: int = 16, init_std: float = 0.02) -> None:
        super().__init__(spec)
        if clip < 1:
            raise ValueError(f"shaw tells apart distances up to clip, which must be at least 1, not {clip}.")
        self.clip, self.init_std = clip, init_std
        self.table = nn.Parameter(torch.empty(2 * clip + 1, spec.head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=self.init_std)

    def content_bias(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor:
        index = (-offset(q_pos, k_pos)).clamp(-self.clip, self.clip) + self.clip
        return dot_rows(q * self.spec.head_dim**-0.5, self.table, index)
