"""The inner product of two sinusoidal vectors, added to the scores."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import Spec
from .offset_bias import OffsetBias
from .ops import angles, frequencies


class Sandwich(OffsetBias):
    """score(i, j) += (sum_{c=1}^{d/2} cos((i - j) * theta^(-2c/d)) - d/2) / r_h,  r_h = 8h/H for head h = 1 ... H.

    Chi, Fan, Rudnicky & Ramadge 2023, "Dissecting Transformer Length Extrapolation via the Lens of
    Receptive Field Analysis", section 5: what remains of Vaswani's sines when only position meets
    position. The sum falls roughly with the logarithm of the distance, by a ratio that differs between
    heads; nothing is learned. d (`width`) sets the shape and has nothing to do with the model's.

    The -d/2, a constant for softmax, makes a token's own score zero. NeMo's copy takes d from the head, and
    leaves out the last of the d/2 terms and the cosine. Any length is computable.
    """

    shift_invariant = unbounded = True

    def __init__(self, spec: Spec, width: int = 128, theta: float = 10_000.0) -> None:
        super().__init__(spec)
        if width < 2 or width % 2:
            raise ValueError(f"sandwich sums width/2 cosines: width={width} is not an even number, use 128.")
        self.width, self.theta = width, theta

    def of_offset(self, n: Tensor) -> Tensor:
        # c runs from 1, unlike in the sines themselves
        frequency = frequencies(self.width, self.theta) * self.theta ** (-2 / self.width)
        heads = self.spec.heads
        ratio = torch.arange(1, heads + 1, device=n.device, dtype=torch.float64) * (8 / heads)
        total = angles(n, frequency).cos().sum(1) - self.width / 2
        return (total / ratio[:, None]).float()
