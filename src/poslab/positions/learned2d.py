"""A learned vector for each row and one for each column."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from .base import NotDefined, PositionEncoding, Positions, Spec
from .ops import check_choices, stretch


class Learned2d(PositionEncoding):
    """x += [E_column[x], E_row[y]]  (`combine: concat`)  or  E_column[x] + E_row[y]  (`sum`).

    concat: Carion et al. 2020 (DETR), authors' code: half of the channels tell the column, half the row,
    both tables ~ U(0, 1). sum: Dehghani et al. 2023 (NaViT), section 2.1, factorised embeddings, whose
    starting values the paper does not give; `init: normal` with `init_scale: 0.02` is ViT's. rows + columns
    vectors instead of rows * columns: what is learned in a row holds in all of its cells.

    DETR adds its vectors to q and k in every layer, here they are added to the tokens once, as in NaViT.
    At another grid `resample: linear` reads each table at the new number of rows or columns, linear between
    neighbours, in float32 (NaViT's fractional variant in spirit; DETR and NaViT do not resample); at the
    trained grid it is used bit for bit. `none` is the authors': indices are absolute, a smaller grid
    reads the first entries and a larger one is not defined (DETR's code ends at 50).
    """

    axes = 2

    def __init__(
        self,
        spec: Spec,
        combine: Literal["concat", "sum"] = "concat",
        init: Literal["uniform", "normal"] = "uniform",
        init_scale: float = 1.0,
        resample: Literal["linear", "none"] = "linear",
        align_corners: bool = False,
    ) -> None:
        super().__init__(spec)
        check_choices(self, {"combine": combine, "init": init, "resample": resample})
        if combine == "concat" and spec.dim % 2:
            raise ValueError(f"combine=concat halves the channels: dim={spec.dim} is odd, choose an even dim or sum.")
        self.combine, self.init, self.init_scale = combine, init, init_scale
        self.resample, self.align_corners = resample, align_corners
        width = spec.dim // 2 if combine == "concat" else spec.dim
        self.rows = nn.Parameter(torch.empty(spec.extent[0], width))
        self.columns = nn.Parameter(torch.empty(spec.extent[1], width))
        self.reset_parameters()

    @property
    def unbounded(self) -> bool:  # type: ignore[override]
        return self.resample != "none"

    def reset_parameters(self) -> None:
        for table in (self.rows, self.columns):
            if self.init == "uniform":
                nn.init.uniform_(table, 0, self.init_scale)
            else:
                nn.init.normal_(table, std=self.init_scale)

    def adopt(self, other: PositionEncoding) -> None:
        """The other's tables, read at this grid as `other` would do it."""
        assert isinstance(other, Learned2d)
        rows, columns = other.tables(self.spec.extent)
        with torch.no_grad():
            self.rows.copy_(rows[: self.rows.shape[0]])
            self.columns.copy_(columns[: self.columns.shape[0]])

    def embed(self, pos: Positions) -> Tensor:
        rows, columns = self.tables(pos.extent)
        y, x = rows[pos.axis(0)], columns[pos.axis(1)]
        return torch.cat((x, y), dim=1) if self.combine == "concat" else x + y

    def tables(self, grid: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Float32 vectors of the rows and of the columns of a grid, or more of them."""
        trained = (self.rows.shape[0], self.columns.shape[0])
        if grid == trained:  # of the grid as a whole: one question of a compiler, not one for each axis
            return self.rows.float(), self.columns.float()
        if self.resample == "none":
            if any(here > there for here, there in zip(grid, trained, strict=True)):
                here, there = ("x".join(map(str, size)) for size in (grid, trained))
                raise NotDefined(
                    f"Learned2d has tables for a grid of {there}, the image has {here}: use pos.resample=linear."
                )
            return self.rows.float(), self.columns.float()
        return stretch(self.rows, grid[0], self.align_corners), stretch(self.columns, grid[1], self.align_corners)
