"""An image and its grid transposed together: the same numbers, from the encoding with its axes swapped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from poslab.positions import PositionEncoding, Positions
from poslab.positions.irpe import IRPE
from poslab.positions.learned import Learned
from poslab.positions.rope2d_mixed import RoPE2dMixed

from . import build
from .build import GRID, IMAGE, Setting
from .test_invariance import attend

SIDEWAYS = Setting("sideways", GRID[::-1], False)


def mirrored(word: str, upright: PositionEncoding) -> PositionEncoding:
    """The encoding that does along columns what `upright` does along rows."""
    swaps: dict[str, Callable[[], PositionEncoding]] = {
        "none": lambda: build.encoding("none", SIDEWAYS),
        "alibi2d": lambda: build.encoding("alibi2d", SIDEWAYS),
        "rope2d": lambda: build.encoding(build.factory("rope2d", order="yx"), SIDEWAYS),
        "rope2d_mixed": lambda: build.encoding("rope2d_mixed", SIDEWAYS),
        "irpe": lambda: build.encoding("irpe", SIDEWAYS),
        "learned": lambda: build.encoding("learned", SIDEWAYS),
    }
    if word not in swaps:
        pytest.skip(f"{word}: no key or parameter that swaps its axes is named here")
    sideways = swaps[word]()
    with torch.no_grad():
        if isinstance(sideways, RoPE2dMixed) and isinstance(upright, RoPE2dMixed):
            sideways.frequency.copy_(upright.frequency.flip(0))
        if isinstance(sideways, Learned) and isinstance(upright, Learned):
            sideways.table.copy_(upright.table.transpose(0, 1))
        if isinstance(sideways, IRPE) and isinstance(upright, IRPE):
            side = upright.side
            sideways.table.copy_(upright.table.unflatten(1, (side, side)).transpose(1, 2).flatten(1, 2))
    return sideways


@pytest.mark.parametrize("word, setting", build.cases((IMAGE,)))
@pytest.mark.parametrize("grid", [GRID, (3, 5), (7, 2)])
def test_transposed(word: str, setting: Setting, grid: tuple[int, int]) -> None:
    upright = build.encoding(word, setting)
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
