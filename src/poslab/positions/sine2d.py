"""Sines of row and column, added to the tokens."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .base import PositionEncoding, Positions, Spec
from .ops import angles, check_choices, frequencies

Layout = Literal["bigvision", "mae", "moco", "timm"]


class Sine2d(PositionEncoding):
    """A quarter of the channels each for sin and cos of row y and column x times w_0 ... w_{C/4-1}.

    The sine of Vaswani et al. 2017 along both axes. Four layouts are in use under this name and
    none equals another; with w_i = theta^(-i/(C/4)), or theta^(-i/(C/4-1)) where the endpoint 1/theta
    is reached:

        bigvision  [sin x, cos x, sin y, cos y], endpoint   (Beyer et al. 2022, "Better plain ViT baselines")
        mae        [sin x, cos x, sin y, cos y]             (He et al. 2022, authors' code)
        moco       [sin y, cos y, sin x, cos x]             (Chen et al. 2021, MoCo v3, on row-major tokens)
        timm       [sin y, sin x, cos y, cos x]             (timm, build_sincos2d_pos_embed)

    Computable at every position; past the trained grid the model meets sines it was not trained on.
    """

    unbounded = True
    axes = 2

    def __init__(self, spec: Spec, theta: float = 10_000.0, layout: Layout = "bigvision") -> None:
        super().__init__(spec)
        check_choices(self, {"layout": layout})
        if spec.dim % 4:
            raise ValueError(f"sine2d splits the channels into four: dim={spec.dim} is not divisible by 4.")
        self.theta, self.layout = theta, layout

    def embed(self, pos: Positions) -> Tensor:
        w = frequencies(self.spec.dim // 2, self.theta, endpoint=self.layout == "bigvision")
        y, x = angles(pos.axis(0), w), angles(pos.axis(1), w)
        order = {
            "bigvision": (x.sin(), x.cos(), y.sin(), y.cos()),
            "mae": (x.sin(), x.cos(), y.sin(), y.cos()),
            "moco": (y.sin(), y.cos(), x.sin(), x.cos()),
            "timm": (y.sin(), x.sin(), y.cos(), x.cos()),
        }
        return torch.cat(order[self.layout], dim=1).float()
