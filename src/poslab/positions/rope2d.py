"""Axial rotary position embedding for images."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .base import Positions, Spec
from .ops import Pairs, angles, check_choices, frequencies
from .rotary import Rotary
from .scaling import Scaling


class RoPE2d(Rotary):
    """Half of the pairs turn by x * b_i, the other half by y * b_i,  b_i = theta^(-4i/D).

    Heo et al. 2024, "Rotary Position Embedding for Vision Transformer" (RoPE-ViT), section 3.2,
    equation 7: axial frequencies, theta = 100 since an image has few patches a side, the patch
    index as coordinate. Each axis is a `rope` of half the head, so scores read only the offset.

    `order: xy` gives the first pairs to the column as the authors' code does; EVA-02 and timm's
    default are `yx`. Every grid is computable; past the trained one slow pairs meet angles never seen,
    which `scaling` (a rule of `scaling.py`, each axis by its own extent) is there to avoid.
    """

    shift_invariant = unbounded = True
    axes = 2

    def __init__(
        self,
        spec: Spec,
        theta: float = 100.0,
        order: Literal["xy", "yx"] = "xy",
        pairs: Pairs = "adj",
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"order": order, "pairs": pairs})
        if spec.head_dim % 4:
            raise ValueError(
                f"rope2d turns pairs on two axes: a head of {spec.head_dim} is not divisible by 4, "
                "choose dim and heads so that dim / heads is."
            )
        self.theta, self.order, self.pairs, self.scaling = theta, order, pairs, scaling

    def angles(self, pos: Positions) -> Tensor:
        b = frequencies(self.spec.head_dim // 2, self.theta)
        y, x = (angles(pos.axis(axis), self.scaled(b, self.theta, pos, axis)) for axis in (0, 1))
        return torch.cat((x, y) if self.order == "xy" else (y, x), dim=1)
