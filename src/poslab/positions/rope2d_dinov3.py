"""Axial rotary position embedding within the box of the image."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from .base import Positions, Spec
from .ops import angles, check_choices, check_head_of_four, frequencies
from .rotary import Rotary


class RoPE2dDINOv3(Rotary):
    """Half of the pairs turn by 2 pi y / p_j, the other half by 2 pi x / p_j,  p_j = theta^(4j/D).

    Simeoni et al. 2025, "DINOv3", section 3.2, and the authors' code (`RopePositionEmbedding`). The
    image, whatever its size, is the box [-1, 1]: patch i of n lies at its centre, 2 (i + .5)/n - 1,
    so a place keeps its angle as the resolution grows. `normalize` says what both axes are divided
    by: each its own side (`separate`), or the longer or shorter side for both (`max`, `min`), which
    keeps patches square. Pairs are (c, c + D/2).

    In training the box is disturbed so that other sizes and shapes are no surprise, in the authors'
    order: moved by up to `shift` on each axis, stretched by a factor of 1/jitter ... jitter on each axis
    and of 1/rescale ... rescale on both, log-uniform. Drawn once a forward pass; the authors' code draws
    anew in each block. Null leaves a disturbance out. The paper trains with `rescale` 2 alone.

    Scores read only the offset while the size stays; at another size the same offset in patches is
    another angle. Every grid is computable, and none reaches outside of the box.
    """

    shift_invariant = unbounded = True
    axes = 2

    def __init__(
        self,
        spec: Spec,
        theta: float = 100.0,
        order: Literal["yx", "xy"] = "yx",
        normalize: Literal["separate", "max", "min"] = "separate",
        shift: float | None = None,
        jitter: float | None = None,
        rescale: float | None = 2.0,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"order": order, "normalize": normalize})
        check_head_of_four(spec, "rope2d_dinov3 turns pairs on two axes")
        for name, factor in {"jitter": jitter, "rescale": rescale}.items():
            if factor is not None and factor < 1:
                raise ValueError(f"{name}={factor} is a factor of 1 or more, drawn from 1/{name} to {name}, or null.")
        if shift is not None and shift < 0:
            raise ValueError(f"shift={shift} is how far the box [-1, 1] may move: 0 or more, or null.")
        self.theta, self.order, self.normalize = theta, order, normalize
        self.shift, self.jitter, self.rescale = shift, jitter, rescale

    def angles(self, pos: Positions) -> Tensor:
        turns = 2 * math.pi * frequencies(self.spec.head_dim // 2, self.theta)
        y, x = (angles(coordinate, turns) for coordinate in self.disturbed(self.box(pos)))
        return torch.cat((y, x) if self.order == "yx" else (x, y), dim=1)

    def box(self, pos: Positions) -> Tensor:
        """(2, T) float64 row and column in [-1, 1]."""
        rows, columns = pos.extent
        side = {"separate": (rows, columns), "max": (max(pos.extent),) * 2, "min": (min(pos.extent),) * 2}
        centres = pos.coordinates.to(torch.float64) + 0.5
        return torch.stack([2 * centres[:, axis] / side[self.normalize][axis] - 1 for axis in (0, 1)])

    def disturbed(self, box: Tensor) -> Tensor:
        """(2, T) as training sees it."""
        if not self.training:
            return box

        def draw(count: int, reach: float) -> Tensor:
            return torch.empty(count, 1, dtype=torch.float32, device=box.device).uniform_(-reach, reach)

        if self.shift is not None:
            box = box + draw(2, self.shift)
        if self.jitter is not None:
            box = box * draw(2, math.log(self.jitter)).exp()
        if self.rescale is not None:
            box = box * draw(1, math.log(self.rescale)).exp()
        return box
