"""Learned Fourier features of row and column, through a small MLP."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import check_choices


class Fourier2d(PositionEncoding):
    """x_p += W_2 GELU(W_1 r_p + b_1) + b_2,  r_p = [cos W p, sin W p] / sqrt(F),  p = (row, column).

    Li et al. 2021, "Learnable Fourier Features for Multi-Dimensional Spatial Positional Encoding",
    algorithm 1 with one group. W, F/2 directions and frequencies that are learned, starts at N(0, gamma^-2)
    (a variance, so that r_p . r_q is about exp(-|p - q|^2 / (2 gamma^2)) / 2): near patches look alike,
    however they lie to each other, and the MLP makes of that what the model needs. The linear layers start as
    PyTorch's, which the algorithm leaves open.

    Algorithm 1 leaves F (`features`), the hidden width and gamma open as well, and no code was published: hidden
    and gamma are those of a public re-implementation's example (willGuimont, who takes gamma^-2 for the
    standard deviation), F is ours. So is the unit of p, which decides what gamma means: `coordinates: patches`, or
    the index divided by the side of the `trained` grid or of this `image`. A gamma wider than the grid starts
    with vectors that hardly differ: on 7x7 patches those of gamma 10 spread a quarter as far as those of 1.

    Every grid is computable; past the trained one `patches` and `trained` meet new positions, `image`
    spreads the learned ones over the new grid.
    """

    unbounded = True
    axes = 2

    def __init__(
        self,
        spec: Spec,
        features: int = 128,
        hidden: int = 32,
        gamma: float = 10.0,
        coordinates: Literal["patches", "trained", "image"] = "patches",
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"coordinates": coordinates})
        if features < 2 or features % 2:
            raise ValueError(f"features={features}: sines come in pairs with cosines, choose an even number.")
        if hidden < 1 or gamma <= 0:
            raise ValueError(f"fourier2d needs hidden >= 1 and gamma > 0, not {hidden} and {gamma}.")
        self.gamma, self.coordinates = gamma, coordinates
        self.frequency = nn.Parameter(torch.empty(features // 2, 2))  # of row and column
        self.hidden, self.out = nn.Linear(features, hidden), nn.Linear(hidden, spec.dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.frequency, std=1 / self.gamma)
        self.hidden.reset_parameters()
        self.out.reset_parameters()

    def adopt(self, other: PositionEncoding) -> None:
        """What `other` learned; where its grid was the unit, frequencies are turned into those of this grid."""
        super().adopt(other)
        if self.coordinates == "trained":
            ratio = [own / theirs for own, theirs in zip(self.spec.extent, other.spec.extent, strict=True)]
            with torch.no_grad():
                self.frequency.mul_(torch.tensor(ratio).to(self.frequency))

    def fourier(self, pos: Positions) -> Tensor:
        """(T, F) float32 features r."""
        units = {"patches": (1, 1), "trained": self.spec.extent, "image": pos.extent}[self.coordinates]
        y, x = (pos.axis(axis).float()[:, None] / units[axis] for axis in (0, 1))
        # products and a sum, not a matmul: autocast would run that in half precision
        turns = y * self.frequency[:, 0].float() + x * self.frequency[:, 1].float()
        return torch.cat((turns.cos(), turns.sin()), dim=1) * (2 * len(self.frequency)) ** -0.5

    def embed(self, pos: Positions) -> Tensor:
        with torch.autocast(pos.device.type, enabled=False):
            hidden = F.linear(self.fourier(pos), self.hidden.weight.float(), self.hidden.bias.float())
            return F.linear(F.gelu(hidden), self.out.weight.float(), self.out.bias.float())
