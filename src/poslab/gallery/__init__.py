"""Encodings as pictures, drawn from their own methods.

    python -m poslab.gallery rope2d                       a page for an encoding as it starts,
    python -m poslab.gallery rope pos/scaling=yarn        with other keys,
    python -m poslab.gallery runs/<run>                   as a run learned it, layer by layer
    python -m poslab.gallery all                          one sheet of all of them

Three questions, each within the trained extent and past it: how alike are the vectors that are added
to the tokens; what does an encoding say to queries and keys whose entries are all 1, against their
offset; and, for images, against the offset in two dimensions.
"""

from __future__ import annotations

import tempfile
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ..build import build_encodings
from ..cli.check import check, missing
from ..cli.compositions import composed_words, write_compositions
from ..cli.configs import Configs
from ..errors import UsageError
from ..positions import PositionEncoding, Spec
from ..run import load_run
from .pages import INK, canvas, page, render, split
from .panels import IMAGE, TEXT, Panel, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "draw_run", "sheet"]


def first_encoding(configs: Configs, spec: Spec, word: str, *overrides: str) -> list[PositionEncoding]:
    """That of the first layer as it starts with seed 0, or none where the word is not for such a model."""
    torch.manual_seed(0)
    return (build_encodings(configs.compose([f"pos={word}", *overrides]).values["pos"], spec) or [])[:1]


def draw(word: str, *overrides: str) -> Figure:
    """The page of a word of configs/pos, with other keys where `overrides` say so (`pos.theta=500`).

    Raises UsageError for a word or a key that does not exist.
    """
    with tempfile.TemporaryDirectory(prefix="poslab-") as folder:
        line = [f"pos={word}", *overrides]
        write_compositions(composed_words(line), Configs("train").options("pos"), Path(folder))
        configs = Configs("train", more=[f"file://{folder}"])
        missing(configs, check(configs, line), line)
        rows = []
        for spec in (TEXT, IMAGE):
            for encoding in first_encoding(configs, spec, word, *overrides):
                rows += [row for row in split(panels(encoding, heads=4)) if row]
    if not rows:
        raise UsageError(f"pos={word} adds nothing to tokens or scores: there is nothing to draw.")
    return page(" ".join([word, *overrides]), rows)


def draw_run(directory: Path) -> Figure:
    """What a run learned: a row for each layer that has an encoding of its own."""
    run = load_run(directory)
    rows = [panels(encoding) for encoding in run.load_model().trunk.position]
    if not any(rows):
        raise UsageError(f"{directory}: pos={run.choices['pos']} adds nothing to tokens or scores.")
    return page(run.name, [row for row in rows if row])


def sheet() -> Figure:
    """All words of configs/pos, one after the other: a picture each, past the trained extent where that is defined."""
    configs = Configs("train")
    shown: list[tuple[str, Panel]] = []
    for word in configs.options("pos"):
        for spec in (TEXT, IMAGE):
            for encoding in first_encoding(configs, spec, word):
                found = [panel for panel in panels(encoding) if panel.values is not None]
                shown += [(word, panel) for panel in found[-1:]]
    figure, grid = canvas(-(-len(shown) // 6), 6, 2.6, 2.4)
    for axes, drawn in zip_longest((axes for line in grid for axes in line), shown):
        if drawn is None:
            axes.set_axis_off()
            continue
        word, panel = drawn
        render(axes, panel)
        axes.set_title(f"{word} ({'text' if len(panel.trained) == 1 else 'image'})", fontsize=9, color=INK)
    return figure
