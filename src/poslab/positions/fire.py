"""A small network over interpolated distance, added to the scores."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import from_grid_offsets, from_offsets, perceptron
from .pair_bias import PairBias

EPS = 1e-6  # authors' code


class Interpolated(PositionEncoding):
    """What both share: c, and a network 1 - `hidden` - heads with ReLU, in every layer or one for all."""

    unbounded = True

    def __init__(self, spec: Spec, c: float, hidden: int, shared: bool) -> None:
        super().__init__(spec)
        self.c_start, self.shared = c, shared
        self.c = nn.Parameter(torch.empty(()))
        self.first, self.second = nn.Linear(1, hidden), nn.Linear(hidden, spec.heads, bias=False)

    @property
    def per_layer(self) -> bool:  # type: ignore[override]
        return not self.shared

    def reset_parameters(self) -> None:
        nn.init.constant_(self.c, self.c_start)
        self.first.reset_parameters()
        self.second.reset_parameters()

    def interpolated(self, n: Tensor, farthest: Tensor | float) -> Tensor:
        """ln(c |n| + 1) / (ln(c farthest + 1) + 1e-6), float32."""
        return self.logarithm(n) / self.normaliser(farthest)

    def logarithm(self, n: Tensor) -> Tensor:
        """ln(c |n| + 1), float32."""
        return torch.log1p(self.c.float().abs() * n.abs())

    def normaliser(self, farthest: Tensor | float) -> Tensor:
        return torch.log1p(self.c.float().abs() * farthest) + EPS


class FIRE(Interpolated, PairBias):
    """score(i, j) += MLP_h( ln(c |i - j| + 1) / (ln(c max(i, tau) + 1) + 1e-6) ),  c and tau learned.

    Li et al. 2024, "Functional Interpolation for Relative Positions Improves Long Context Transformers",
    section 3 (progressive interpolation) and appendix (code). Dividing by the query's own position keeps what
    the network reads in [0, 1] at every length; below tau it is plain distance, so that short texts are not
    stretched. The logarithm spreads near keys. `shared: true` is the paper's FIRE-S.

    tau = |m| * threshold * trained extent, m learned from 1. The authors start tau at 512 in models trained on
    2,048, a quarter; so does `threshold`, which is live at small extents too. |.| inside the logarithms keeps
    masked cells finite. The network is that of the appendix, with one hidden layer where the paper's
    equation has two, and without its last bias, which softmax ignores; it starts as PyTorch's maps do. It is
    evaluated for each pair of positions.

    The query's position normalises, so only causal models can have it. Every length is computable.
    """

    axes = 1

    def __init__(
        self, spec: Spec, c: float = 0.1, threshold: float = 0.25, hidden: int = 32, shared: bool = False
    ) -> None:
        super().__init__(spec, c, hidden, shared)
        if not spec.causal:
            raise ValueError(
                "fire divides by the position of the query, the farthest that a causal model sees from there: "
                "use pos=fire2d for images, or pos=kerple."
            )
        self.threshold = threshold
        self.multiplier = nn.Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.ones_(self.multiplier)

    def adopt(self, other: PositionEncoding) -> None:
        """The other's function: tau stays where it is, though the trained extent is another."""
        assert isinstance(other, FIRE)
        super().adopt(other)
        with torch.no_grad():
            self.multiplier.mul_(other.threshold * other.spec.extent[0] / (self.threshold * self.spec.extent[0]))

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        return perceptron(self.distance(q_pos, k_pos)[None], self.first, self.second)

    def distance(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        """(Q, K) float32, what the network reads; in [0, 1] where the query sees the key."""
        tau = self.multiplier.float().abs() * (self.threshold * self.spec.extent[0])
        farthest = torch.maximum(q_pos.axis(0).float(), tau)
        near = from_offsets(lambda n: self.logarithm(n)[None], q_pos, k_pos)[0]
        return near / self.normaliser(farthest)[:, None]


class FIRE2d(Interpolated):
    """score(i, j) += sum over both axes of MLP_h( ln(c |n| + 1) / (ln(c tau + 1) + 1e-6) ),  n = i - j along the axis.

    Ours, not a published method: FIRE for grids, where patches see each other in all directions and no
    query's position can normalise. tau is the trained extent of the axis: an input of 1 is the far side
    of a trained image. c and the network are learned and the same for both axes, so rows and columns are told
    apart by their extents only, and left from right not at all.

    Past the trained grid inputs exceed 1 slowly, and the network goes on linearly. A model of
    another grid that adopts it has another tau, and stretches what was learned.
    """

    shift_invariant = True
    axes = 2

    def __init__(self, spec: Spec, c: float = 0.1, hidden: int = 32, shared: bool = False) -> None:
        super().__init__(spec, c, hidden, shared)
        self.reset_parameters()

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        def along(n: Tensor, tau: int) -> Tensor:
            return perceptron(self.interpolated(n, tau)[None], self.first, self.second)

        rows, columns = self.spec.extent
        return from_grid_offsets(lambda dy, dx: along(dy, rows) + along(dx, columns), q_pos, k_pos)
