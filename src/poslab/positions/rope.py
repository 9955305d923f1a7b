"""Rotary position embedding for text."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from .base import Positions, Spec
from .ops import Pairs, angles, check_choices, check_even_head, frequencies, turn
from .rotary import Rotary
from .scaling import Scaling


class RoPE(Rotary):
    """Pair c of q and k at position t turns by t * theta^(-2c/R), so q_i . k_j reads only i - j.

    Su et al. 2021, "RoFormer", equations 14-16 and section 3.2.2. R = fraction * D channels turn
    (GPT-NeoX's partial rotary: frequencies follow from R), the others carry content only.

    `pairs: adj` turns channels (2c, 2c+1) as the paper and its code do, `half` turns (c, c + R/2)
    as GPT-NeoX and Llama in transformers do; one is a permutation of the other, and a checkpoint
    fits only its own. `values: rotated` turns v as well (RoFormer's rotary_value), which makes the
    output depend on absolute positions; `relative` turns the attention output back.

    Every position is computable. Past the trained extent slow pairs meet angles never seen, which
    `scaling` (a rule of `scaling.py`) is there to avoid.
    """

    unbounded = True
    axes = 1

    def __init__(
        self,
        spec: Spec,
        theta: float = 10_000.0,
        pairs: Pairs = "half",
        fraction: float = 1.0,
        values: Literal["plain", "rotated", "relative"] = "plain",
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"pairs": pairs, "values": values})
        check_even_head(spec)
        self.width = int(spec.head_dim * fraction) // 2 * 2
        if not 2 <= self.width <= spec.head_dim:
            raise ValueError(f"fraction={fraction} of a head of {spec.head_dim} leaves no pair to turn: use (0, 1].")
        self.theta, self.pairs, self.values = theta, pairs, values
        self.scale_with(scaling, self.width // 2)

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        return self.values != "rotated"

    def angles(self, pos: Positions) -> Tensor:
        return angles(pos.axis(0), self.scaled(frequencies(self.width, self.theta), self.theta, pos))

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().rotate(q, k, v, pos)
        return q, k, v if self.values == "plain" else turn(v, *self.cos_sin(pos), self.pairs)

    def unrotate(self, y: Tensor, pos: Positions) -> Tensor:
        if self.values != "relative":
            return y
        cos, sin = self.cos_sin(pos)
        return turn(y, cos, -sin, self.pairs)
