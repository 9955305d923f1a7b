"""Learned rotations of many channels at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec


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
            raise ValueError(
                f"generator_dim={generator_dim} divides a head of {spec.head_dim} into rotations of at least 2 channels: "
                f"use one of {', '.join(str(n) for n in range(2, spec.head_dim + 1) if spec.head_dim % n == 0)}."
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

    def generators(self) -> Tensor:
        """(y and x, H or 1, blocks, n, n) float32 skew-symmetric matrices."""
        n = self.generator_dim
        row, column = torch.triu_indices(n, n, 1, device=self.upper.device)
        flat = self.upper.new_zeros(*self.upper.shape[:-1], n * n, dtype=torch.float32)
        above = flat.index_copy(-1, row * n + column, self.upper.float()).unflatten(-1, (n, n))
        return above - above.mT

    def rotations(self, pos: Positions) -> Tensor:
        """(H or 1, T, blocks, n, n) float32."""
        place = pos.coordinates.to(torch.float64) / torch.tensor(self.spec.extent, device=pos.device)
        a_y, a_x = self.generators().unsqueeze(2)  # (H or 1, 1, blocks, n, n)
        y, x = place.float().T[:, :, None, None, None]
        return torch.linalg.matrix_exp(y * a_y + x * a_x)

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        with torch.autocast(q.device.type, enabled=False):  # which would run the products within exp in half precision
            r = pos.once(self, "rotations", lambda: self.rotations(pos))
            return self.turn(r, q), self.turn(r, k), v

    def turn(self, r: Tensor, x: Tensor) -> Tensor:
        """R x for each block of x (B, H, T, D), in float32; the batch is the width of the products."""
        blocks = x.float().unflatten(-1, (-1, self.generator_dim))
        return (r @ blocks.permute(1, 2, 3, 4, 0)).permute(4, 0, 1, 2, 3).flatten(-2).to(x.dtype)
