"""A small network over log-spaced offsets between patches, added to the scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import from_grid_offsets, perceptron


class SwinV2(PositionEncoding):
    """score(i, j) += 16 sigmoid(MLP_h(u(y_i - y_j), u(x_i - x_j))),  u(d) = sign(d) log2(1 + |8d/(side - 1)|) / 3.

    Liu et al. 2022, "Swin Transformer V2", section 3.3, equation 4 (log-spaced continuous position bias); the 8,
    the 3 and the 16 sigmoid are the authors' code. A network gives every offset a bias, and the logarithm keeps those
    of a larger grid close to what training saw. MLP 2 - `hidden` - heads with ReLU in every layer,
    the last map without a bias, weights ~ N(0, 0.02^2).

    `side` is that of the trained grid (its `pretrained_window_size`), so larger grids reach beyond u = 1; a side
    of 1 has offset 0 only. A model of another grid that adopts the network normalises by its own. The cosine
    attention of the paper is not part of it. Training starts near 8 between all patches, but prefix
    tokens get no bias: at the start patches hardly read them.
    """

    shift_invariant = unbounded = True
    per_layer = True
    axes = 2

    def __init__(self, spec: Spec, hidden: int = 512) -> None:
        super().__init__(spec)
        self.first, self.second = nn.Linear(2, hidden), nn.Linear(hidden, spec.heads, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.first.weight, std=0.02)
        nn.init.zeros_(self.first.bias)
        nn.init.trunc_normal_(self.second.weight, std=0.02)

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        return from_grid_offsets(self.of_offset, q_pos, k_pos)

    def of_offset(self, dy: Tensor, dx: Tensor) -> Tensor:
        """(H, *shape) for offsets whose shapes broadcast."""
        scaled = [8 * d / max(side - 1, 1) for d, side in zip((dy, dx), self.spec.extent, strict=True)]
        u = [d.sign() * torch.log2(1 + d.abs()) / math.log2(8) for d in scaled]
        return 16 * perceptron(torch.stack(torch.broadcast_tensors(*u)), self.first, self.second).sigmoid()
