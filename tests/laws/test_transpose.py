"""An image and its grid transposed together: the same numbers, from the encoding with its axes swapped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from poslab.positions import PositionEncoding, Positions
from poslab.positions.fourier2d import Fourier2d
from poslab.positions.irpe import IRPE
from poslab.positions.learned import Learned
from poslab.positions.liere import LieRE
from poslab.positions.onehot import OneHot
from poslab.positions.rope2d_golden import RoPE2dGolden
from poslab.positions.rope2d_mixed import RoPE2dMixed
from poslab.positions.swin import Swin
from poslab.positions.swin_v2 import SwinV2

from . import build
from .build import GRID, IMAGE, Setting
from .test_invariance import attend

SIDEWAYS = Setting("sideways", GRID[::-1], False)


class GoldenSideways(RoPE2dGolden):
    """Its directions, computed and not learned, mirrored at the diagonal."""

    def frequencies(self) -> Tensor:
        return super().frequencies().flip(0)


def mirrored(word: str, upright: PositionEncoding) -> PositionEncoding:
    """The encoding that does along columns what `upright` does along rows."""
    swaps: dict[str, Callable[[], PositionEncoding]] = {
        "none": lambda: build.encoding("none", SIDEWAYS),
        "alibi2d": lambda: build.encoding("alibi2d", SIDEWAYS),
        "rope2d": lambda: build.encoding(build.factory("rope2d", order="yx"), SIDEWAYS),
        "rope2d_eva": lambda: build.encoding(build.factory("rope2d_eva", order="xy"), SIDEWAYS),
        "rope2d_pe": lambda: build.encoding(build.factory("rope2d_pe", order="yx"), SIDEWAYS),
        "rope2d_dinov3": lambda: build.encoding(build.factory("rope2d_dinov3", order="xy"), SIDEWAYS),
        "rope2d_golden": lambda: build.encoding(GoldenSideways, SIDEWAYS),
        "rope2d_mixed": lambda: build.encoding("rope2d_mixed", SIDEWAYS),
        "liere": lambda: build.encoding("liere", SIDEWAYS),
        "irpe": lambda: build.encoding("irpe", SIDEWAYS),
        "learned": lambda: build.encoding("learned", SIDEWAYS),
        "onehot": lambda: build.encoding("onehot", SIDEWAYS),
        "fourier2d": lambda: build.encoding("fourier2d", SIDEWAYS),
        "fire2d": lambda: build.encoding("fire2d", SIDEWAYS),
        "swin": lambda: build.encoding("swin", SIDEWAYS),
        "swin_v2": lambda: build.encoding("swin_v2", SIDEWAYS),
        "lookhere": lambda: build.encoding("lookhere", SIDEWAYS),  # two heads, which look along a diagonal
    }
    if word not in swaps:
        pytest.skip(f"{word}: no key or parameter that swaps its axes is named here")
    sideways = swaps[word]()
    with torch.no_grad():
        if isinstance(sideways, RoPE2dMixed) and isinstance(upright, RoPE2dMixed):
            sideways.frequency.copy_(upright.frequency.flip(0))
        if isinstance(sideways, LieRE) and isinstance(upright, LieRE):
            sideways.upper.copy_(upright.upper.flip(0))
        if isinstance(sideways, Learned) and isinstance(upright, Learned):
            sideways.table.copy_(upright.table.transpose(0, 1))
        if isinstance(sideways, OneHot) and isinstance(upright, OneHot):
            sideways.linear.weight.copy_(upright.linear.weight.unflatten(1, GRID).transpose(1, 2).flatten(1))
        if isinstance(sideways, Fourier2d) and isinstance(upright, Fourier2d):
            sideways.frequency.copy_(upright.frequency.flip(1))
        if isinstance(sideways, Swin) and isinstance(upright, Swin):
            sideways.table.copy_(upright.table.transpose(1, 2))
        if isinstance(sideways, SwinV2) and isinstance(upright, SwinV2):
            sideways.first.weight.copy_(upright.first.weight.flip(1))
        if isinstance(sideways, IRPE) and isinstance(upright, IRPE):
            side = upright.side
            sideways.table.copy_(upright.table.unflatten(1, (side, side)).transpose(1, 2).flatten(1, 2))
    return sideways


@pytest.mark.parametrize("word, setting", build.cases((IMAGE,)))
@pytest.mark.parametrize("grid", [GRID, (3, 5), (7, 2)])
def test_transposed(word: str, setting: Setting, grid: tuple[int, int]) -> None:
    upright = build.encoding(word, setting)
    if not upright.unbounded and any(side > trained for side, trained in zip(grid, GRID, strict=True)):
        pytest.skip(f"{word}: unbounded=False, {grid} lies beyond")
    sideways = mirrored(word, upright)
    tokens = torch.randn(*grid, build.DIM)
    with torch.no_grad():
        there = attend(sideways, Positions.grid(*grid[::-1]), tokens.transpose(0, 1).flatten(0, 1))
        here = attend(upright, Positions.grid(*grid), tokens.flatten(0, 1))
    torch.testing.assert_close(here.unflatten(0, grid).transpose(0, 1).flatten(0, 1), there, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["bigvision", "mae", "moco", "timm"])
def test_transposed_sines(layout: str) -> None:
    """sine2d has no key that swaps its axes: rows and columns own channels, which change places."""
    sine = build.encoding(build.factory("sine2d", layout=layout), IMAGE)
    quarters = sine.embed(Positions.grid(3, 5)).unflatten(0, (3, 5)).transpose(0, 1).flatten(0, 1).chunk(4, dim=1)
    order = (1, 0, 3, 2) if layout == "timm" else (2, 3, 0, 1)
    assert torch.equal(torch.cat([quarters[index] for index in order], dim=1), sine.embed(Positions.grid(5, 3)))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("grid", [GRID, (3, 5), (7, 2)])
def test_transposed_sines_of_detr(normalize: bool, grid: tuple[int, int]) -> None:
    """The half of the rows becomes that of the columns."""
    sine = build.encoding(build.factory("sine2d_detr", normalize=normalize), IMAGE)
    y, x = sine.embed(Positions.grid(*grid)).unflatten(0, grid).transpose(0, 1).flatten(0, 1).chunk(2, dim=1)
    assert torch.equal(torch.cat((x, y), dim=1), sine.embed(Positions.grid(*grid[::-1])))


@pytest.mark.parametrize("combine", ["concat", "sum"])
@pytest.mark.parametrize("grid", [GRID, (3, 5), (7, 2)])
def test_transposed_tables(combine: str, grid: tuple[int, int]) -> None:
    """learned2d with its two tables exchanged; concatenated ones own channels, which change places."""
    upright, sideways = (build.encoding(build.factory("learned2d", combine=combine), at) for at in (IMAGE, SIDEWAYS))
    with torch.no_grad():
        sideways.rows.copy_(upright.columns)
        sideways.columns.copy_(upright.rows)
    there = sideways.embed(Positions.grid(*grid[::-1]))
    if combine == "concat":
        there = torch.cat(there.chunk(2, dim=1)[::-1], dim=1)
    here = upright.embed(Positions.grid(*grid)).unflatten(0, grid).transpose(0, 1).flatten(0, 1)
    torch.testing.assert_close(here, there)
