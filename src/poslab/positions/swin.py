"""A learned scalar for each offset between patches, added to the scores."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import PositionEncoding, Positions, Spec
from .ops import check_choices, from_grid_offsets


class Swin(PositionEncoding):
    """score(i, j) += B_h[y_i - y_j + R - 1, x_i - x_j + C - 1] on R x C patches, a table in every layer.

    Liu et al. 2021, "Swin Transformer", section 3.2, equation 4; over the whole grid it is the bias of
    BEiT (Bao et al. 2022, section 2.3). The table has one entry for each of the (2R - 1)(2C - 1) offsets and
    head, B ~ N(0, init_std^2) cut at +-2; in Swin it spans a window instead. Prefix tokens get no
    bias: BEiT's three learned entries for its class token are left out.

    At another grid the table is resampled to that grid's offsets, in float32, as Swin's code does when it
    loads a checkpoint: bicubic, without antialias. It stretches: the farthest offset stays the farthest. timm's
    resize_rel_pos_bias_table keeps near offsets in place instead (geometric spacing, linear between). With
    `resample: none` smaller grids read their part of the table and larger ones are not defined.
    """

    shift_invariant = True
    per_layer = True
    axes = 2

    def __init__(
        self,
        spec: Spec,
        init_std: float = 0.02,
        resample: Literal["bicubic", "bilinear", "none"] = "bicubic",
        antialias: bool = False,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"resample": resample})
        self.init_std, self.resample, self.antialias = init_std, resample, antialias
        self.table = nn.Parameter(torch.empty(spec.heads, *(2 * side - 1 for side in spec.extent)))
        self.reset_parameters()

    @property
    def unbounded(self) -> bool:  # type: ignore[override]
        return self.resample != "none"

    def reset_parameters(self) -> None:
        nn.init.trunc_normal_(self.table, std=self.init_std, a=-2, b=2)

    def adopt(self, other: PositionEncoding) -> None:
        """The other's table, resampled to this grid as `other` would do it."""
        assert isinstance(other, Swin)
        with torch.no_grad():
            self.table.copy_(other._resampled(self.spec.extent))

    def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
        table = self._resampled(k_pos.extent)
        rows, columns = table.shape[1] // 2, table.shape[2] // 2  # of the centre, where the offset is zero
        return from_grid_offsets(lambda dy, dx: table[:, dy + rows, dx + columns].float(), q_pos, k_pos)

    def _resampled(self, grid: tuple[int, ...]) -> Tensor:
        """(H, 2 rows - 1, 2 columns - 1) of a grid; at the trained one the table itself."""
        if grid == self.spec.extent or self.resample == "none":
            return self.table
        size = [2 * side - 1 for side in grid]
        return F.interpolate(self.table.float()[None], size=size, mode=self.resample, antialias=self.antialias)[0]
