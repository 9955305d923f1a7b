"""A small network over interpolated distance, added to the scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import from_grid_offsets, offset, perceptron

EPS = 1e-6  # authors' code


class FIRE(PositionEncoding):
    """score(i, j) += MLP_h( ln(c |i - j| + 1) / (ln(c max(i, tau) + 1) + 1e-6) ),  c and tau learned.

    Li et al. 2024, "Functional Interpolation for Relative Positions Improves Long Context Transformers",
    section 3.1 (progressive interpolation) and appendix (code). Dividing by the query's own position keeps the
    input of the network in [0, 1] at every length; below tau it reads plain distance, so that short texts
    are not stretched. The logarithm spreads near keys. MLP 1 - `hidden` - heads with ReLU, one for all layers.

    tau = |m| * threshold * trained extent, m learned from 1. The authors start at 512 in models trained on 2,048,
    a quarter: so does `threshold`, which is live at small extents too. |.| inside the logarithms
    keeps masked cells finite. Their last layer has a bias, which softmax ignores and which is left out here.
    The start is PyTorch's for linear maps. It costs a network evaluation for each pair of positions.

    The query's position normalises, so only causal models can have it. Every length is computable.
    """

    unbounded = True
    axes = 1

    def __init__(self, spec: Spec, c: float = 0.1, threshold: float = 0.25, hidden: int = 32) -> None:
        super().__init__(spec)
        if not spec.causal:
            raise ValueError(
                "fire divides by the position of the query, the farthest that a causal model sees from there: "
                "use pos=fire2d for images, or pos=kerple."
            )
        self.c_start, self.threshold = c, threshold
        self.c = nn.Parameter(torch.empty(()))
        self.multiplier = nn.Parameter(torch.empty(()))
        self.first, self.second = nn.Linear(1, hidden), nn.Linear(hidden, spec.heads, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.c, self.c_start)
        nn.init.ones_(self.multiplier)
        self.first.reset_parameters()
        self.second.reset_parameters()

    def adopt(self, other: PositionEncoding) -> None:
        """The other's function: tau stays where it is, though the trained extent is another."""
        assert isinstance(other, FIRE)
        super().adopt(other)
        with torch.no_grad():
            self.multiplier *= other.threshold * other.spec.extent[0] / (self.threshold * self.spec.extent[0])

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        return perceptron(self.distance(q_pos, k_pos)[None], self.first, self.second)

    def distance(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        """(Q, K) float32, what the network reads; in [0, 1] where the query sees the key."""
        c = self.c.float().abs()
        tau = self.multiplier.float().abs() * (self.threshold * self.spec.extent[0])
        farthest = torch.maximum(q_pos.axis(0).float(), tau)[:, None]
        return torch.log1p(c * offset(q_pos, k_pos).abs()) / (torch.log1p(c * farthest) + EPS)


class FIRE2d(PositionEncoding):
    """score(i, j) += sum over axes of MLP_h( ln(c |n| + 1) / (ln(c tau + 1) + 1e-6) ),  n = the axis' offset.

    Ours, not a published method: FIRE for grids, where no query position can normalise, since
    patches see each other in all directions. tau is the trained extent of the axis, so that an input of 1 is
    the trained image's far side; c and the one MLP 1 - `hidden` - heads of both axes are shared by all layers. Rows and
    columns are told apart by their extents only, left from right not at all.

    Past the trained grid inputs exceed 1 slowly, and the network goes on linearly. A model of
    another grid that adopts it has another tau, and stretches what was learned.
    """

    shift_invariant = unbounded = True
    axes = 2

    def __init__(self, spec: Spec, c: float = 0.1, hidden: int = 32) -> None:
        super().__init__(spec)
        self.c_start = c
        self.c = nn.Parameter(torch.empty(()))
        self.first, self.second = nn.Linear(1, hidden), nn.Linear(hidden, spec.heads, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.c, self.c_start)
        self.first.reset_parameters()
        self.second.reset_parameters()

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        c = self.c.float().abs()

        def along(n: Tensor, tau: int) -> Tensor:
            return perceptron((torch.log1p(c * n.abs()) / (torch.log1p(c * tau) + EPS))[None], self.first, self.second)

        rows, columns = self.spec.extent
        return from_grid_offsets(lambda dy, dx: along(dy, rows) + along(dx, columns), q_pos, k_pos)
