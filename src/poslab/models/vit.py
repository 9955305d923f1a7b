"""ViT: a bidirectional Transformer over the patches of an image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..positions import PositionEncoding, Positions, Spec, declared_axes
from .transformer import Transformer

Size = int | tuple[int, int]


def pair(size: Size) -> tuple[int, int]:
    """(rows, columns) of a size given as one number or two."""
    if isinstance(size, int):
        return size, size
    rows, columns = size
    return rows, columns


class ViT(nn.Module):
    """Dosovitskiy et al. 2021, with the position encoding left open.

    Args:
        image_size, patch_size: pixels, one number or (rows, columns); training sizes, any other
            size whose sides the patch divides can be given to `forward`.
        pool: the head reads the class token ("class") or the mean of the patches ("mean").
        registers: tokens without position or meaning (Darcet et al. 2024) in front of the patches.
        trunk: everything else that `Transformer` takes.

    A one-axis encoding sees the patches in raster order. Linear maps start Xavier uniform and the head
    at zero, as in the authors' code.
    """

    reads = "image"  # the kind of data it is for

    def __init__(
        self,
        *,
        image_size: Size,
        patch_size: Size,
        channels: int,
        classes: int,
        pos: Callable[[Spec], PositionEncoding],
        dim: int,
        heads: int,
        depth: int,
        pool: Literal["class", "mean"] = "mean",
        registers: int = 0,
        **trunk: Any,
    ) -> None:
        super().__init__()
        if pool not in ("class", "mean"):
            raise ValueError(f"pool={pool} is not one of class, mean.")
        self.patch_size, self.channels, self.pool = pair(patch_size), channels, pool
        self.image_size = pair(image_size)
        self.grid = self.grid_of(*self.image_size)
        self.prefix = registers + (pool == "class")
        self.prefix_tokens = nn.Parameter(torch.empty(self.prefix, dim)) if self.prefix else None
        rows, columns = self.patch_size
        self.raster = declared_axes(pos) == 1
        extent = (self.grid[0] * self.grid[1],) if self.raster else self.grid
        self.patches = nn.Linear(channels * rows * columns, dim)
        self.trunk = Transformer(dim=dim, heads=heads, depth=depth, extent=extent, causal=False, pos=pos, **trunk)
        self.head = nn.Linear(dim, classes)
        self.init_weights()

    def init_weights(self) -> None:
        if self.prefix_tokens is not None:
            nn.init.normal_(self.prefix_tokens, std=0.02)
        nn.init.xavier_uniform_(self.patches.weight)
        nn.init.zeros_(self.patches.bias)
        self.trunk.init_weights()
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def grid_of(self, height: int, width: int) -> tuple[int, int]:
        """(rows, columns) of patches in an image; ValueError where the patch does not divide it."""
        rows, columns = self.patch_size
        if height % rows or width % columns or min(height, width) < 1:
            near = f"{max(1, round(height / rows)) * rows}x{max(1, round(width / columns)) * columns}"
            raise ValueError(
                f"An image of {height}x{width} does not divide into patches of {rows}x{columns}: use {near}."
            )
        return height // rows, width // columns

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes) of images (B, channels, height, width), floats around zero."""
        if images.ndim != 4 or images.shape[1] != self.channels:
            raise ValueError(f"ViT wants images (B, {self.channels}, height, width), not {tuple(images.shape)}.")
        grid = self.grid_of(*images.shape[-2:])
        x = self.patches(self._cut(images, grid))
        if self.prefix_tokens is not None:
            x = torch.cat((self.prefix_tokens.to(x.dtype).expand(x.shape[0], -1, -1), x), dim=1)
        if self.raster:
            pos = Positions.line(grid[0] * grid[1], device=images.device)
        else:
            pos = Positions.grid(*grid, device=images.device)
        x = self.trunk(x, pos, prefix=self.prefix)
        return self.head(x[:, 0] if self.pool == "class" else x[:, self.prefix :].mean(dim=1))

    def _cut(self, images: Tensor, grid: tuple[int, int]) -> Tensor:
        """(B, T, channels * patch) pixels of each patch, row by row."""
        rows, columns = self.patch_size
        x = images.unflatten(3, (grid[1], columns)).unflatten(2, (grid[0], rows))
        return x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
