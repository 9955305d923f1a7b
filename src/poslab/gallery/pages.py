"""Panels on a figure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

import torch

from .panels import Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEADS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe & Ito 2008
INK = "#333333"


def render(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, fontsize=8, color=INK)
    axes.tick_params(labelsize=7)
    axes.locator_params(integer=True, nbins=5)
    if panel.values is None:
        axes.text(0.5, 0.5, "not defined", ha="center", va="center", transform=axes.transAxes, color=INK, fontsize=9)
        axes.set_axis_off()
        return
    drawn = panel.values.numpy()
    dashed = {"color": "black", "linestyle": (0, (4, 3)), "linewidth": 0.8}
    if panel.kind == "curves":
        for head, values in enumerate(drawn):
            axes.plot(values, color=HEADS[head % len(HEADS)], linewidth=1, label=f"head {head + 1}")
        axes.axvline(panel.trained[0] - 1, **dashed)
        axes.set_xlabel("query minus key", fontsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        return
    limits = {"vmin": -1, "vmax": 1, "cmap": "RdBu_r"} if "likeness" in panel.title else {"cmap": "viridis"}
    image = axes.imshow(drawn, **limits)
    axes.figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04).ax.tick_params(labelsize=6)
    if panel.kind == "matrix":
        edge = panel.trained[0] - 0.5
        if len(drawn) > panel.trained[0]:
            axes.plot([-0.5, edge, edge], [edge, edge, -0.5], **dashed)
        return
    rows, columns = drawn.shape
    if (rows, columns) != panel.trained:  # the trained grid around the centre
        top, left = rows // 2 - panel.trained[0] // 2 - 0.5, columns // 2 - panel.trained[1] // 2 - 0.5
        bottom, right = top + panel.trained[0], left + panel.trained[1]
        axes.plot([left, right, right, left, left], [top, top, bottom, bottom, top], **dashed)


def canvas(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # only here: it takes a second
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False).tolist()


def page(title: str, rows: Sequence[Sequence[Panel]]) -> Figure:
    """A figure with a row of panels for each encoding."""
    figure, grid = canvas(len(rows), max(map(len, rows)), 2.9, 2.6)
    for line, found in zip(grid, rows, strict=True):
        for axes, panel in zip_longest(line, found):
            axes.set_axis_off() if panel is None else render(axes, panel)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, color=INK)
    return figure


def split(found: Sequence[Panel]) -> list[list[Panel]]:
    """Where there are many: trained sizes in one row, sizes past them in the next; heads that are alike once."""
    if len(found) <= 4:
        return [list(found)]
    rows = [[panel for panel in found if ("past" in panel.title) == past] for past in (False, True)]
    for row in rows:
        scored = [panel for panel in row if "head" in panel.title and panel.values is not None]
        if scored and all(torch.equal(panel.values, scored[0].values) for panel in scored):  # type: ignore[arg-type]
            row[:] = [panel for panel in row if all(panel is not other for other in scored[1:])]
    return rows
