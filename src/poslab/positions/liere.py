"""Learned rotations of many channels at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import turn


class LieRE(PositionEncoding):
    """q, k <- R q, R k with R = exp(y A_y + x A_x),  A_y and A_x learned and skew-symmetric.

    Ostmeier et al. 2025, "LieRE: Lie Rotational Positional Encodings", and the authors' code. The
    exponential of a skew-symmetric matrix is a rotation, here of `generator_dim` channels together:
    each head has D / generator_dim such blocks, and pairs (generator_dim 2) are learned RoPE. Only the
    entries above the diagonal are stored; they start at U(0, 2 pi). `per_layer` and `per_head`
    give each layer and head generators of its own, as the authors' training scripts do (their
    published code then reads those of the first layer everywhere). The exponential is taken in float32,
    once a forward pass in each layer, also under autocast.

    Coordinates are i / n of the trained grid. The authors' are n' equal steps from 0 to n'/n on n'
    patches, n'/(n (n' - 1)) apart, so their spacing changes with the size; here it does not. Scores
    read only the offset where A_y and A_x commute, which pairs always do and wider blocks do not:
    exp(-P) exp(Q) is not exp(Q - P) then. Every grid is computable; past the trained one blocks turn
    further than they ever did.
    """

    unbounded = True
    axes = 2

    def __init__(self, spec: Spec, generator_dim: int = 8, per_layer: bool = True, per_head: bool = True) -> None:
        super().__init__(spec)
        if generator_dim < 2 or spec.head_dim % generator_dim:
            divisors = [str(n) for n in range(2, spec.head_dim + 1) if spec.head_dim % n == 0]
            raise ValueError(
                f"generator_dim={generator_dim} does not divide a head of {spec.head_dim} into rotations of 2 or more "
                f"channels: use one of {', '.join(divisors)}."
            )
        self.generator_dim, self.per_layer = generator_dim, per_layer
        heads, blocks = spec.heads if per_head else 1, spec.head_dim // generator_dim
        entries = generator_dim * (generator_dim - 1) // 2
        self.upper = nn.Parameter(torch.empty(2, heads, blocks, entries))  # y and x
        self.reset_parameters()

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        return self.generator_dim == 2

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.upper, 0, 2 * math.pi)

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        if self.generator_dim == 2:  # exp of [[0, a], [-a, 0]] needs no series: it turns by -a
            cos, sin = pos.once(self, "cos_sin", lambda: self.cos_sin(pos))
            return turn(q, cos, -sin, "adj"), turn(k, cos, -sin, "adj"), v
        with torch.autocast(q.device.type, enabled=False):  # which would run the products within exp in half precision
            r = pos.once(self, "rotations", lambda: self.rotations(pos))
            return turn_blocks(q, r), turn_blocks(k, r), v

    def entries(self, pos: Positions) -> Tensor:
        """(H or 1, T, blocks, entries) float32: y A_y + x A_x above the diagonal."""
        y, x = (pos.axis(axis).to(torch.float64) / self.spec.extent[axis] for axis in (0, 1))
        a_y, a_x = self.upper.float().unsqueeze(2)
        return y.float()[:, None, None] * a_y + x.float()[:, None, None] * a_x

    def cos_sin(self, pos: Positions) -> tuple[Tensor, Tensor]:
        """(H or 1, T, D / 2) float32, for pairs."""
        angle = self.entries(pos).squeeze(-1)
        return angle.cos(), angle.sin()

    def rotations(self, pos: Positions) -> Tensor:
        """(H or 1, T, blocks, n, n) float32 exponentials."""
        entries, n = self.entries(pos), self.generator_dim
        row, column = torch.triu_indices(n, n, 1, device=entries.device)
        flat = entries.new_zeros(*entries.shape[:-1], n * n).index_copy(-1, row * n + column, entries)
        above = flat.unflatten(-1, (n, n))
        return torch.linalg.matrix_exp(above - above.mT)


def turn_blocks(x: Tensor, r: Tensor) -> Tensor:
    """R x for each block of x (B, H, T, D) by r (H or 1, T, blocks, n, n): float32 products as wide as the batch."""
    blocks = x.float().unflatten(-1, (-1, r.shape[-1]))
    return (r @ blocks.permute(1, 2, 3, 4, 0)).permute(4, 0, 1, 2, 3).flatten(-2).to(x.dtype)
