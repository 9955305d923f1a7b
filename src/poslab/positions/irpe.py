"""Relative position for images: learned vectors for buckets of row and column offsets."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import dot_rows, offset


class IRPE(PositionEncoding):
    """score(i, j) += q_i . r[bucket(y_i - y_j), bucket(x_i - x_j)] / sqrt(D).

    Wu et al. 2021, "Rethinking and Improving Relative Position Encoding for Vision Transformer" (iRPE):
    the product method, contextual, on keys, as in the released DeiT models. With the piecewise function of
    equation 18,

        bucket(n) = n                                                                            |n| <= alpha
                    sign(n) min(beta, round(alpha + (beta - alpha) ln(|n|/alpha) / ln(gamma/alpha)))  beyond

    near offsets are told apart, far ones share buckets, and all from gamma on share the last, so every grid
    is computable. Buckets are whole numbers: beta = 3.8 ends at 3, which leaves 7 x 7 vectors a layer. r
    starts at zero; heads share it unless `share_heads` is false.

    The authors give class tokens a vector of their own; here tokens without a position get no bias. Their models
    keep the learned absolute table beside it: `learned + irpe` is that sum.
    """

    shift_invariant = unbounded = True
    per_layer = True
    axes = 2

    def __init__(
        self, spec: Spec, alpha: float = 1.9, beta: float = 3.8, gamma: float = 15.2, share_heads: bool = True
    ) -> None:
        super().__init__(spec)
        if not (0 < alpha <= beta and alpha < gamma and beta >= 1):
            raise ValueError(f"irpe needs 0 < alpha <= beta, beta >= 1, alpha < gamma, not {alpha}, {beta}, {gamma}.")
        self.alpha, self.beta, self.gamma, self.share_heads = alpha, beta, gamma, share_heads
        self.side = 2 * int(beta) + 1
        self.table = nn.Parameter(torch.empty(1 if share_heads else spec.heads, self.side**2, spec.head_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.table)

    def bucket(self, n: Tensor) -> Tensor:
        """Bucket of each offset n along an axis, -int(beta) ... int(beta)."""
        size = n.abs()
        grown = torch.log(size.clamp(min=1).float() / self.alpha) / math.log(self.gamma / self.alpha)
        far = (self.alpha + (self.beta - self.alpha) * grown).round().clamp(max=self.beta).long()
        return n.sign() * torch.where(size <= self.alpha, size, far)

    def content_bias(self, q: Tensor, k: Tensor, q_pos: Positions, k_pos: Positions) -> Tensor:
        y, x = (self.bucket(offset(q_pos, k_pos, axis)) + int(self.beta) for axis in (0, 1))
        return dot_rows(q * self.spec.head_dim**-0.5, self.table, y * self.side + x)
