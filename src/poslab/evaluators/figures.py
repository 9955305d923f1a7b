"""One figure a group: the metric against size, a line an encoding."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .base import Evaluator, parse_size
from .groups import Group
from .lines import Line, make_cell

# told apart by most eyes, in this order (Okabe & Ito 2008, then darker ones); markers tell them apart without colour
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#000000", "#882255", "#7A7A00", "#6A3D9A", "#8C564B", "#999999",
)  # fmt: skip
MARKERS = "osD^vPX<>*hp"
INK = "#333333"


def place(word: str) -> float:
    """Where a size sits on the x axis: tokens of a text, the side of the square of equal area of an image."""
    size = parse_size(word)
    return math.prod(size) ** (1 / len(size))


def draw(path: Path, group: Group, evaluator: type[Evaluator], style: Sequence[str]) -> None:
    """Write a PNG. `style` lists all encodings of a report, so that one keeps its colour in every figure of it."""
    figure, axes = blank(group.title)
    on_line, other = by_shape(group)
    if evaluator.logarithmic:
        axes.set_xscale("log", base=2)
    for line in group.lines:
        colour, marker = look(line, style)
        x = np.array([place(size) for size in on_line])
        value, low, high = curve(line, on_line, group)
        ends = [size for size, number in zip(on_line, value, strict=True) if not math.isnan(number)]
        early = bool(ends) and ends[-1] != on_line[-1]
        label = f"{line.label} (up to {ends[-1]})" if early else line.label
        # a line that ends early has few points: not behind the others
        order = 3 if early else 2
        axes.plot(x, value, color=colour, marker=marker, markersize=5, linewidth=1.8, label=label, zorder=order)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        if other:  # another shape is no point between two squares
            x = np.array([place(size) for size in other])
            value, low, high = curve(line, other, group)
            axes.plot(x, value, color=colour, marker=marker, markersize=6, linestyle="none", markerfacecolor="white")
            axes.vlines(x, low, high, color=colour, linewidth=1)
    scale_values(axes, group, group.lines)
    if guessing := chance(group, evaluator, on_line):
        x = [place(size) for size in on_line]
        axes.plot(x, curve(guessing, on_line, group)[0], color=INK, linewidth=1.2, linestyle="--", label="chance")
    axes.axvline(place(group.reference), color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
    top = axes.get_xaxis_transform()
    axes.text(place(group.reference), 1.015, evaluator.mark, color=INK, fontsize=9, ha="center", transform=top)
    for size in other:
        axes.text(place(size), 0.015, size, color=INK, fontsize=8, ha="center", rotation=90, transform=top)
    axes.set_xticks([place(size) for size in on_line], on_line)
    axes.set_xlabel(evaluator.axis)
    save(path, figure, axes, group)


def chance(group: Group, evaluator: type[Evaluator], sizes: Sequence[str]) -> Line | None:
    """What guessing gives, over all runs; None where nothing was measured of it."""
    if group.metric_name not in evaluator.chances:
        return None
    everyone = [subject for line in group.lines for subject in line.subjects]
    name = evaluator.chances[group.metric_name]
    return Line("chance", everyone, {size: make_cell(everyone, size, name) for size in sizes})


def draw_profile(path: Path, group: Group, size: str, evaluator: type[Evaluator], style: Sequence[str]) -> None:
    """Write a PNG of a metric's parts at one size, such as the loss by position."""
    figure, axes = blank(f"{group.title}, at {size}")
    lines = group.profiles[size]
    parts = list(lines[0].cells)
    for line in lines:
        colour, marker = look(line, style)
        value, low, high = curve(line, parts, group)
        axes.plot(value, color=colour, marker=marker, markersize=5, linewidth=1.8, label=line.label)
        axes.fill_between(range(len(parts)), low, high, color=colour, alpha=0.15, linewidth=0)
    scale_values(axes, group, lines)
    axes.set_xticks(range(len(parts)), parts)
    axes.set_xlabel(evaluator.profiles[group.metric_name])
    save(path, figure, axes, group)


def blank(title: str) -> tuple[Any, Any]:
    """A figure and its axes."""
    # only here: loading it costs a second, and a figure must not need a screen
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(textwrap.fill(title, 80), x=0.01, ha="left", fontsize=10, color=INK)
    return figure, figure.add_subplot()


def look(line: Line, style: Sequence[str]) -> tuple[str, str]:
    """Colour and marker of an encoding."""
    number = style.index(line.label)
    return COLOURS[number % len(COLOURS)], MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]


def scale_values(axes: Any, group: Group, lines: Sequence[Line]) -> None:
    """A logarithmic y axis where only that shows all numbers."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    if wide(group, lines):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_locator(NullLocator())


def wide(group: Group, lines: Sequence[Line]) -> bool:
    """Whether the largest number is far from the smallest."""
    values = [cell.value for line in lines for cell in line.cells.values() if cell.value > 0]
    finite = [value for value in values if math.isfinite(value)]
    return bool(finite) and not group.metric.percent and max(finite) > 10 * min(finite)


def save(path: Path, figure: Any, axes: Any, group: Group) -> None:
    """Labels, grid and legend, and the file."""
    from matplotlib.ticker import NullFormatter, NullLocator

    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel(group.metric.label)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, fontsize=9, title=caption(group), title_fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def curve(line: Line, points: Sequence[str], group: Group) -> tuple[np.ndarray, ...]:
    """value, low, high (len(points),) of one encoding; nan where it is not defined, which ends its line."""
    cells = [line.cells[point] for point in points]
    return tuple(scale(group) * np.array([getattr(cell, name) for cell in cells]) for name in ("value", "low", "high"))


def scale(group: Group) -> int:
    """Fractions are drawn in percent."""
    return 100 if group.metric.percent else 1


def by_shape(group: Group) -> tuple[list[str], list[str]]:
    """Sizes of the shape of the reference, which a line joins, and the others."""
    alike = [size for size in group.sizes if shape(size) == shape(group.reference)]
    return alike, [size for size in group.sizes if size not in alike]


def shape(word: str) -> float:
    """Columns a row; texts and squares are 1."""
    size = parse_size(word)
    return round(size[-1] / size[0], 3) if len(size) > 1 else 1.0


def caption(group: Group) -> str:
    if all(len(line.subjects) == 1 for line in group.lines):
        return "band: interval over samples"
    if all(len(line.subjects) > 1 for line in group.lines):
        return "band: ± sd over seeds"
    return "band: ± sd over seeds, one seed: over samples"
