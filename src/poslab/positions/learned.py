"""A learned vector for each position."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import NotDefined, PositionEncoding, Positions, Spec
from .ops import check_choices, stretch


class Learned(PositionEncoding):
    """x_t += E[t], a table with one row for each trained position, E ~ N(0, init_std^2).

    Text: Gehring et al. 2017, section 3.1; Radford et al. 2018 (GPT). Images: Dosovitskiy et al.
    2021 (ViT), section 3.1 and appendix D.4. The model can place every position freely, and learns
    nothing about positions that it never saw.

    Past the trained extent. Text: `past: error` refuses, naming both lengths; `past: interpolate`
    stretches the table linearly over the new length. Images: the table is resampled to the new
    grid (ViT, section 3.2) with `resample`, `antialias` and `align_corners` as given, in float32,
    keyed on the shape of the grid; at the trained grid it is used bit for bit. With
    `resample: none` an image must have the trained grid. Published code differs in `antialias`
    (timm and big_vision: on; DeiT, DINO and RoPE-ViT: off), which moves results at other sizes.
    """

    def __init__(
        self,
        spec: Spec,
        init_std: float = 0.02,
        past: Literal["error", "interpolate"] = "error",
        resample: Literal["bicubic", "bilinear", "none"] = "bicubic",
        antialias: bool = True,
        align_corners: bool = False,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"past": past, "resample": resample})
        self.init_std, self.past, self.resample = init_std, past, resample
        self.antialias, self.align_corners = antialias, align_corners
        self.table = nn.Parameter(torch.empty(*spec.extent, spec.dim))
        self.reset_parameters()

    @property
    def unbounded(self) -> bool:  # type: ignore[override]
        return self.past == "interpolate" if len(self.spec.extent) == 1 else self.resample != "none"

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=self.init_std)

    def adopt(self, other: PositionEncoding) -> None:
        """The other's table, stretched or resampled to this extent as `other` would do it."""
        assert isinstance(other, Learned)
        size = self.spec.extent
        pos = Positions.line(size[0]) if len(size) == 1 else Positions.grid(size[0], size[1])
        with torch.no_grad():
            self.table.copy_(other.embed(pos).view_as(self.table))

    def embed(self, pos: Positions) -> Tensor:
        if pos.axes == 1:
            table = self._stretched(pos.extent[0])
            return table[pos.axis(0)]
        table = self._resampled(pos.extent)
        return table[pos.axis(0), pos.axis(1)]

    def _stretched(self, length: int) -> Tensor:
        if length <= self.table.shape[0]:
            return self.table
        if self.past == "error":
            raise NotDefined(
                f"Learned has a table of {self.table.shape[0]} positions, the text has {length}: "
                "use pos.past=interpolate or shorten the text."
            )
        return stretch(self.table, length, align_corners=True)

    def _resampled(self, grid: tuple[int, ...]) -> Tensor:
        if grid == tuple(self.table.shape[:2]):
            return self.table
        if self.resample == "none":
            trained, here = ("x".join(map(str, size)) for size in (self.table.shape[:2], grid))
            raise NotDefined(
                f"Learned has a table for a grid of {trained}, the image has {here}: use pos.resample=bicubic."
            )
        planes = self.table.float().permute(2, 0, 1)[None]
        # always `size`: a scale factor rounds to one patch less on some grids
        planes = F.interpolate(
            planes, size=grid, mode=self.resample, antialias=self.antialias, align_corners=self.align_corners
        )
        return planes[0].permute(1, 2, 0)
