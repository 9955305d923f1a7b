"""Polar coordinate position embedding: content is a length, position an angle."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import Positions, Spec
from .ops import angles, check_choices, frequencies
from .rotary import Rotary
from .scaling import Scaling


class PoPE(Rotary):
    """score(i, j) = sum_c softplus(q_ic) softplus(k_jc) cos((i - j) theta_c - b_hc) / sqrt(D),  theta_c = theta^(-c/D).

    Gopalakrishnan et al. 2025, "Decoupling the What and Where With Polar Coordinate Positional Embeddings",
    equations 3-6. In RoPE the angle between a pair of q and one of k adds to that of their positions, so what and
    where mix; here a channel is a length at an angle of position alone, with a frequency for each channel
    instead of each pair. b is learned in each layer, heads * D numbers, and held in [-2 pi, 0].

    `init: zeros` is the paper's choice for reading longer inputs, `uniform` draws from the whole range, slightly
    better within the trained extent (section 3). How the range is kept we could not see in the authors' code.
    x-transformers, whose b is one for all layers, clamps, and so does this; but a clamp has no gradient at its ends,
    where b starts, so here the gradient passes through it.

    Each channel becomes a vector of two, so q and k leave twice as wide; scores keep the 1/sqrt(D) of a head.
    Every position is computable; past the trained extent slow channels meet angles never seen, see `scaling`.
    """

    shift_invariant = unbounded = True
    norm_preserving = False
    per_layer = True
    axes = 1

    def __init__(
        self,
        spec: Spec,
        theta: float = 10_000.0,
        init: Literal["zeros", "uniform"] = "zeros",
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"init": init})
        self.theta, self.init = theta, init
        self.scale_with(scaling, spec.head_dim)
        self.phase = nn.Parameter(torch.empty(spec.heads, spec.head_dim))  # b
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.uniform_(self.phase, -2 * math.pi, 0) if self.init == "uniform" else nn.init.zeros_(self.phase)

    def angles(self, pos: Positions) -> Tensor:
        return angles(pos.axis(0), self.scaled(frequencies(2 * self.spec.head_dim, self.theta), self.theta, pos))

    def rotate(self, q: Tensor, k: Tensor, v: Tensor, pos: Positions) -> tuple[Tensor, Tensor, Tensor]:
        cos, sin = self.stretched_cos_sin(pos)
        b = self.phase.float()[:, None]
        b = b + (b.clamp(-2 * math.pi, 0) - b).detach()
        k_cos, k_sin = cos * b.cos() - sin * b.sin(), sin * b.cos() + cos * b.sin()  # of angle + b
        return polar(q, cos, sin), polar(k, k_cos, k_sin), v

    def rotate_prefix(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """[softplus(x), 0]: lengths at angle zero."""
        return widened(q), widened(k)


def lengths(x: Tensor) -> Tensor:
    """softplus, in float32 or better."""
    return F.softplus(x.to(torch.promote_types(x.dtype, torch.float32)))


def polar(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(B, H, T, 2D) in the dtype of x: its lengths at the angles behind cos and sin, (T, D) or (H, T, D)."""
    r = lengths(x)
    return torch.cat((r * cos, r * sin), dim=-1).to(x.dtype)


def widened(x: Tensor) -> Tensor:
    """(B, H, T, 2D) in the dtype of x: its lengths at angle zero."""
    return F.pad(lengths(x), (0, x.shape[-1])).to(x.dtype)
