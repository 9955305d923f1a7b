"""Rotary position embedding for causal text whose far keys fade."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .base import NotDefined, Positions, Spec
from .ops import Pairs, angles, check_choices, check_even_head, frequencies, turn
from .rotary import Rotary
from .scaling import Scaling


class XPos(Rotary):
    """RoPE, and pair i of q grows by zeta_i^(t/B), of k by zeta_i^(-t/B), so q_i . k_j fades as zeta^((i-j)/B).

    zeta_i = (2i/D + gamma) / (1 + gamma). Sun et al. 2023, "A Length-Extrapolatable Transformer", and the
    authors' code (torchscale), which has gamma = .4 and B = `scale_base` = 512. Fast pairs fade first, so what
    far keys say comes from the slow ones, whose angles differ least. The paper's blockwise attention
    at inference is a mask, not part of the encoding, and left out.

    Scores read i - j only, but q and k themselves grow exponentially. So t counts from the middle of the extent
    of the whole pass, which halves the exponents and stays fixed as a cache fills (the authors recentre with each
    token, and cache keys before they are turned). Keys ahead would be exponentially louder: causal only.

    Past the trained extent everything is computable up to the `bound` where float32 is too narrow for the
    scores, 27,195 positions at the defaults, and not defined beyond.
    """

    shift_invariant = unbounded = True
    norm_preserving = False
    axes = 1

    def __init__(
        self,
        spec: Spec,
        theta: float = 10_000.0,
        gamma: float = 0.4,
        scale_base: float = 512.0,
        pairs: Pairs = "adj",
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"pairs": pairs})
        if not spec.causal:
            raise ValueError(
                "xpos weighs a key by its distance behind the query, keys ahead would grow exponentially: "
                "it needs a causal model. Use pos=rope here."
            )
        check_even_head(spec)
        if gamma <= 0 or scale_base <= 0:
            raise ValueError(f"xpos needs gamma > 0 and scale_base > 0, not {gamma} and {scale_base}.")
        self.theta, self.gamma, self.scale_base, self.pairs = theta, gamma, scale_base, pairs
        self.scale_with(scaling, spec.head_dim // 2)

    def angles(self, pos: Positions) -> Tensor:
        return angles(pos.axis(0), self.scaled(frequencies(self.spec.head_dim, self.theta), self.theta, pos))

    def growth(self, pos: Positions) -> Tensor:
        """(T, D / 2) float32: zeta^((t - centre) / B), what a query is multiplied by and a key divided by."""
        i = torch.arange(self.spec.head_dim // 2, dtype=torch.float64, device=pos.device)
        zeta = (2 * i / self.spec.head_dim + self.gamma) / (1 + self.gamma)
        exponent = (pos.axis(0).to(torch.float64) - pos.extent[0] // 2) / self.scale_base
        return (zeta ** exponent[:, None]).to(torch.float32)

    def bound(self, dtype: torch.dtype) -> int:
        """The longest extent whose scores fit `dtype` (bfloat16 reaches as far as float32).

        A query at one end and a key at the other, which the mask hides, are 1 / zeta_0^(T/B) times too
        loud: three quarters of the exponents are for this factor, the rest for q . k itself.
        """
        octaves = 0.75 * math.log2(torch.finfo(dtype).max)
        return int(octaves * self.scale_base / math.log2((1 + self.gamma) / self.gamma))

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        if pos.extent[0] > self.bound(q.dtype):
            raise NotDefined(
                f"XPos with scale_base={self.scale_base:g} is defined up to {self.bound(q.dtype)} positions, where its "
                f"factors reach the range of {str(q.dtype).removeprefix('torch.')}; the input reaches {pos.extent[0]}: "
                "shorten it, or train with a larger pos.scale_base."
            )
        cos, sin = self.stretched_cos_sin(pos)
        grown = pos.once(self, "growth", lambda: self.growth(pos))
        q = turn(q, cos * grown, sin * grown, self.pairs)
        return q, turn(k, cos / grown, sin / grown, self.pairs), v
