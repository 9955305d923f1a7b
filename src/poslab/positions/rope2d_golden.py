"""Rotary position embedding for images along evenly spread directions."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from .base import Positions, Spec
from .ops import check_choices, check_even_head
from .rotary import Rotary


class RoPE2dGolden(Rotary):
    """Pair c of head h turns by w_c (u_hc . p): a length w_c, a direction u_hc, the place p of the patch.

    Xiong 2025, "On N-dimensional Rotary Positional Embeddings" (golden gate RoPE). A pair of `rope2d`
    cannot tell a row, or a column, apart; learned directions (`rope2d_mixed`) can, and spread over
    the circle by themselves. Here they are spread from the start and nothing is learned. Lengths are
    spaced evenly in the logarithm from min_frequency to max_frequency, the same in each head, after a
    share `zero` of pairs that do not turn. All heads * D/2 pairs are numbered through, i = 0, 1, ...;
    `golden` is the author's code for images, direction i at the angle i pi (sqrt(5) - 1)/2 from the
    x axis, `plastic` his code for any number of axes: fractional parts of (i + 1) g^-1 and (i + 1) g^-2,
    with the plastic number g^3 = g + 1, as normal quantiles, which are then a direction.

    p is the centre of the patch in a box of area 4 around the image, which keeps its shape (`area`,
    the author's), or in [-1, 1] on both axes (`separate`), at any size: patches move closer as the
    resolution grows. The author puts the outermost patches on the edge of the box instead of half a
    patch inside, so his frequency w on n patches a side is w n/(n - 1) here: 20 on 14x14 is 21.5.

    No pair may turn by more than pi from a patch to the next, or two directions of travel look alike:
    max_frequency is at most pi n/2 on a trained grid of n patches a side, 7 pi on 14x14, and null
    means that bound (the trained grid then decides: give the number to keep it in another model).
    Scores read only the offset while the size stays. Every grid is computable; finer ones than the
    trained one stay within that bound, coarser ones do not.
    """

    shift_invariant = unbounded = True
    axes = 2

    def __init__(
        self,
        spec: Spec,
        min_frequency: float = 0.2,
        max_frequency: float | None = None,
        zero: float = 0.0,
        directions: Literal["golden", "plastic"] = "golden",
        normalize: Literal["area", "separate"] = "area",
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"directions": directions, "normalize": normalize})
        check_even_head(spec)
        rows, columns = spec.extent
        bound = math.pi / 2 * (min(rows, columns) if normalize == "separate" else math.sqrt(rows * columns))
        most = bound if max_frequency is None else max_frequency
        if not 0 < min_frequency <= most <= bound:
            raise ValueError(
                f"rope2d_golden needs 0 < min_frequency <= max_frequency <= {bound:.5g}, which is a turn by pi from "
                f"patch to patch on the trained grid of {rows}x{columns}, not {min_frequency} and {max_frequency}."
            )
        self.pairs_of_head = spec.head_dim // 2
        self.still = round(zero * self.pairs_of_head)
        if not 0 <= self.still < self.pairs_of_head:
            raise ValueError(f"zero={zero} of {self.pairs_of_head} pairs leaves none to turn: use a share in [0, 1).")
        self.min_frequency, self.max_frequency = min_frequency, most
        self.directions, self.normalize = directions, normalize

    def angles(self, pos: Positions) -> Tensor:
        f_x, f_y = self.frequencies().to(pos.device)
        x, y = self.place(pos)
        return x[:, None] * f_x[:, None, :] + y[:, None] * f_y[:, None, :]

    def frequencies(self) -> Tensor:
        """(x and y, H, D / 2) float64."""
        turning = torch.linspace(0, 1, self.pairs_of_head - self.still, dtype=torch.float64)
        length = self.min_frequency * (self.max_frequency / self.min_frequency) ** turning
        length = torch.cat((torch.zeros(self.still, dtype=torch.float64), length))
        i = torch.arange(self.spec.heads * self.pairs_of_head, dtype=torch.float64)
        spread = golden_directions(i) if self.directions == "golden" else plastic_directions(i)
        return length * spread.unflatten(1, (self.spec.heads, self.pairs_of_head))

    def place(self, pos: Positions) -> Tensor:
        """(x and y, T) float64 within the box."""
        rows, columns = pos.extent
        side = math.sqrt(rows * columns)
        height, width = (rows, columns) if self.normalize == "separate" else (side, side)
        y, x = (2 * pos.axis(axis).to(torch.float64) + 1 - pos.extent[axis] for axis in (0, 1))
        return torch.stack((x / width, y / height))


def golden_directions(i: Tensor) -> Tensor:
    """(2, N) unit vectors, each the golden section of a half turn after the one before."""
    angle = i * (math.pi * (math.sqrt(5) - 1) / 2)
    return torch.stack((angle.cos(), angle.sin()))


def plastic_directions(i: Tensor) -> Tensor:
    """(2, N) unit vectors from the low-discrepancy sequence of the plastic number."""
    root = math.sqrt(69)
    plastic = ((9 + root) / 18) ** (1 / 3) + ((9 - root) / 18) ** (1 / 3)
    quantile = torch.stack([((i + 1) / plastic**power) % 1 for power in (1, 2)])
    normal = torch.erfinv(2 * quantile - 1)
    return normal / normal.norm(dim=0)
