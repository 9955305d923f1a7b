"""Heads that look in one direction, and a penalty on distance."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from .base import PositionEncoding, Positions, Spec
from .ops import check_choices, distance, offset

# rows and columns to go in the eight directions, clockwise from up; the last one is none, a half-plane without bound
COMPASS = ((-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (0, 0))
STRAIGHT, DIAGONAL, ALL = (0, 4, 6, 2), (7, 3, 1, 5), 8  # opposite ones are neighbours
# of a field of view: the half-planes that bound it, counted from its direction, and its two sets of directions
VIEWS = {
    180: ((0, 0), (STRAIGHT, DIAGONAL)),
    90: ((-1, 1), (DIAGONAL, STRAIGHT)),
    45: ((-1, 2), (STRAIGHT, DIAGONAL)),
}
UNDIRECTED = (0.25, 0.0625, 0.015625, 0.00390625)  # slopes


def deal(heads: int) -> tuple[int, int]:
    """How many heads look in a direction, and how many look everywhere.

    Two thirds and one third, rounded to fours; below four heads a pair and what is left. Heads that look
    everywhere have slopes if they are two, or a multiple of four: ValueError otherwise.
    """
    if heads < 4:
        return heads // 2 * 2, heads % 2
    directed = 4 * math.ceil(heads / 6)
    if heads - directed != 2 and (heads - directed) % 4:
        raise ValueError(
            f"lookhere deals heads in fours, a third of them without a direction, and heads={heads} "
            "does not divide so: use 4, 6, 8, 12, 16 or 24."
        )
    return directed, heads - directed


class LookHere(PositionEncoding):
    """score(i, j) -= slope * s_layer * s_h * ||p_i - p_j|| for patches j that head h looks at, -inf for others.

    Fuller, Kyrollos, Yassin & Green 2024, "LookHere", section 3, and the authors' code. A directed head sees
    a wedge of `fov` degrees, edges and its own patch included, so heads differ by what they can see and on a larger
    image each sees more of the same. 180: half-planes along axes and diagonals; 90: quadrants, and the wedges
    between them; 45: octants. s_layer goes linearly from the first to the last layer. Nothing is learned.

    `deal` says how many heads are directed: 4 of 6, 8 of 12, 12 of 16 as in the authors' code, which knows no other
    numbers, and one opposite pair below four heads. They come in fours, by turns from the two sets of directions;
    the n-th four of a set has s_h = 2^-n. The others have .25, .0625, .015625, .00390625. Authors leave sets and
    slopes to the configurations of their released models. Public copies for 180 and 90 degrees have
    the sets above and `slope`, `first_layer`, `last_layer` as here; for 45 we take both sets of octants in
    their code. The authors round to bfloat16, with its lowest number for -inf.

    Prefix tokens see and are seen by all. Every grid is computable: far patches fade.
    """

    shift_invariant = unbounded = True
    per_layer = True
    axes = 2

    def __init__(
        self,
        spec: Spec,
        fov: Literal[180, 90, 45] = 90,
        slope: float = 2.0,
        first_layer: float = 1.5,
        last_layer: float = 0.5,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"fov": fov})
        depth = spec.layer / max(spec.layers - 1, 1)
        self.slope = slope * (first_layer + (last_layer - first_layer) * depth)
        directed, undirected = deal(spec.heads)
        bounds, sets = VIEWS[fov]
        directions = [sets[h // 4 % 2][h % 4] for h in range(directed)]
        self.bounds = [[(d + turn) % 8 for d in directions] + [ALL] * undirected for turn in bounds]
        alone = [UNDIRECTED[h * 4 // max(undirected, 4)] for h in range(undirected)]
        self.head_slopes = [0.5 ** (h // 8 + 1) for h in range(directed)] + alone

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        slopes = torch.tensor(self.head_slopes, device=q_pos.device)[:, None, None]
        return (-self.slope * slopes * distance(q_pos, k_pos)).masked_fill(~self.seen(q_pos, k_pos), float("-inf"))

    def seen(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        """(H, Q, K): whether the key lies in the head's field of view, the cut of two half-planes."""
        y, x = -offset(q_pos, k_pos, 0), -offset(q_pos, k_pos, 1)  # from query to key
        ahead = torch.stack([y * down + x * right >= 0 for down, right in COMPASS])
        one, other = torch.tensor(self.bounds, device=q_pos.device)
        return ahead.index_select(0, one) & ahead.index_select(0, other)
