"""Axial rotary position embedding for images."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .base import Positions, Spec
from .ops import Pairs, angles, check_choices, check_head_of_four, frequencies
from .rotary import Rotary
from .scaling import Scaling


class RoPE2d(Rotary):
    """Half of the pairs turn by x * b_i, the other half by y * b_i,  b_i = theta^(-4i/D).

    Heo et al. 2024, "Rotary Position Embedding for Vision Transformer" (RoPE-ViT), section 3.2,
    equation 7: axial frequencies, theta = 100 since an image has few patches a side, the patch
    index as coordinate. Each axis is a `rope` of half the head, so scores read only the offset.

    Two more papers turn this way, with other conventions, and are files of this class. `order: xy`
    gives the first pairs to the column as RoPE-ViT and Perception Encoder do, EVA-02 and timm's
    default are `yx`. `first` is the coordinate of the first row and column: Perception Encoder counts
    from 1, so that its class token, which does not turn, lies at (0, 0). With `reference` the
    coordinate is (i + first) / size * reference: a grid of any size lies within one of that many
    patches a side, which EVA-02 was pre-trained on.

    Every grid is computable. Past the trained one slow pairs meet angles never seen, which `scaling`
    (a rule of `scaling.py`, each axis by its own extent) is there to avoid. With `reference` no grid
    reaches further than another, patches only move closer: a rule without a factor changes nothing.
    """

    shift_invariant = unbounded = True
    axes = 2

    def __init__(
        self,
        spec: Spec,
        theta: float = 100.0,
        order: Literal["xy", "yx"] = "xy",
        pairs: Pairs = "adj",
        first: int = 0,
        reference: int | None = None,
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"order": order, "pairs": pairs})
        check_head_of_four(spec, "rope2d turns pairs on two axes")
        if reference is not None and reference < 1:
            raise ValueError(f"reference={reference} is a number of patches a side, or null for the grid as it is.")
        self.theta, self.order, self.pairs = theta, order, pairs
        self.scale_with(scaling, spec.head_dim // 4)
        self.first, self.reference = first, reference

    def angles(self, pos: Positions) -> Tensor:
        b = frequencies(self.spec.head_dim // 2, self.theta)
        y, x = (angles(self.coordinate(pos, axis), self.scaled(b, self.theta, pos, axis)) for axis in (0, 1))
        return torch.cat((x, y) if self.order == "xy" else (y, x), dim=1)

    def coordinate(self, pos: Positions, axis: int) -> Tensor:
        """(T,) coordinates along an axis, in patches of the grid or of the reference grid."""
        index = pos.axis(axis) + self.first
        return index if self.reference is None else index.to(torch.float64) * self.reference / pos.extent[axis]

    def reach(self, pos: Positions, axis: int) -> tuple[int, int]:
        return super().reach(pos, axis) if self.reference is None else (self.reference, self.reference)
