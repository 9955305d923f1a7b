"""Sines of the position with a learned size, added to the tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import angles, frequencies, sines


class LearnedSine(PositionEncoding):
    """x_t += a * [sin(t w_0), sin(t w_1), ..., cos(t w_0), cos(t w_1), ...],  w_i = theta^(-2i/C),  a learned.

    The scaled sinusoidal embedding of x-transformers (Wang, `ScaledSinusoidalEmbedding`); there is no
    paper. How loud positions should be beside tokens depends on how both start (see `sine`): one number, starting
    at C^(-1/2), lets the model decide. Sines before cosines, where `sine` interleaves them.
    Computable at every position, never trained past the extent.
    """

    unbounded = True
    axes = 1

    def __init__(self, spec: Spec, theta: float = 10_000.0) -> None:
        super().__init__(spec)
        if spec.dim % 2:
            raise ValueError(f"Sines come in pairs with cosines: dim={spec.dim} is odd, choose an even dim.")
        self.theta = theta
        self.amplitude = nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.amplitude, self.spec.dim**-0.5)

    def embed(self, pos: Positions) -> Tensor:
        turns = angles(pos.axis(0), frequencies(self.spec.dim, self.theta))
        return self.amplitude.float() * sines(turns, interleaved=False).float()
