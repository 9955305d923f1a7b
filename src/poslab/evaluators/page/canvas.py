"""What the figures of report.html are made of: an empty one, a line with its band, the numbers behind it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

import numpy as np
import plotly.graph_objects as go
from markupsafe import Markup

from ..figures import INK, curve, look, wide
from ..groups import Group
from ..lines import Line

SYMBOLS = {
    "o": "circle", "s": "square", "D": "diamond", "^": "triangle-up", "v": "triangle-down", "P": "cross", "X": "x",
    "<": "triangle-left", ">": "triangle-right", "*": "star", "h": "hexagon", "p": "pentagon",
}  # fmt: skip
GRID = "#DDDDDD"

Numbers = list[dict[str, Any]]


@dataclass(frozen=True)
class Chart:
    """A figure, what a reader should know about it, and its numbers, a row each."""

    figure: go.Figure
    says: str
    numbers: Numbers

    @property
    def json(self) -> Markup:
        """For a script element: plotly writes `<` as an escape, so no name ends it."""
        return Markup(self.figure.to_json())

    @property
    def csv(self) -> str:
        """A link that holds the numbers."""
        file = io.StringIO()
        writer = csv.DictWriter(file, list(self.numbers[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.numbers)
        return f"data:text/csv;charset=utf-8,{quote(file.getvalue())}"


def blank(y: str, x: str, height: int = 430) -> go.Figure:
    """A figure without data, its legend below it."""
    figure = go.Figure(layout={"template": "none", "height": height, "hovermode": "closest"})
    figure.update_layout(
        font={"family": "system-ui, sans-serif", "size": 13, "color": INK},
        margin={"l": 10, "r": 10, "t": 44, "b": 10},
        showlegend=True,  # also of a single line
        legend={"orientation": "h", "x": 0, "y": 0, "yref": "container", "yanchor": "bottom"},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": "#AAAAAA", "activecolor": INK},
    )
    axis = {"gridcolor": GRID, "zeroline": False, "automargin": True}
    figure.update_xaxes(title=x, showgrid=False, **axis)
    figure.update_yaxes(title=y, **axis)
    return figure


def add_line(
    figure: go.Figure,
    line: Line,
    points: Sequence[str],
    x: np.ndarray,
    group: Group,
    style: Sequence[str],
    **where: int,
) -> None:
    """A line with its band, toggled together. `where` is the row and column of a panel."""
    colour, symbol = looks(line, style)
    value, low, high = curve(line, points, group)
    shared = {"name": escape(line.label), "legendgroup": line.label, **where}
    xs, ys = outline(x, low, high)
    figure.add_scatter(
        x=xs, y=ys, fill="toself", fillcolor=see_through(colour), mode="none", hoverinfo="skip", showlegend=False,
        **shared,
    )  # fmt: skip
    figure.add_scatter(
        x=x,
        y=value,
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"symbol": symbol, "size": 8},
        hovertext=[hover(line, point, group) for point in points],
        hoverinfo="text",
        **shared,
    )


def add_points(
    figure: go.Figure, line: Line, points: Sequence[str], x: np.ndarray, group: Group, style: Sequence[str]
) -> None:
    """Open marks with bars."""
    colour, symbol = looks(line, style)
    value, low, high = curve(line, points, group)
    figure.add_scatter(
        x=x,
        y=value,
        error_y={"type": "data", "array": high - value, "arrayminus": value - low, "width": 0},
        mode="markers",
        marker={"symbol": f"{symbol}-open", "size": 9, "color": colour},
        name=escape(line.label),
        legendgroup=line.label,
        showlegend=False,
        hovertext=[hover(line, point, group) for point in points],
        hoverinfo="text",
    )


def looks(line: Line, style: Sequence[str]) -> tuple[str, str]:
    """Colour and plotly's marker of an encoding, as in the other figures of the report."""
    colour, marker = look(line, style)
    return colour, SYMBOLS[marker]


def hover(line: Line, point: str, group: Group) -> str:
    runs = line.cells[point].runs
    text = f"{line.label} at {point}: {line.text(point, group.metric)}, {runs} run{'s' * (runs != 1)}"
    return escape(text)


def mark(figure: go.Figure, x: float, text: str) -> None:
    """The reference size."""
    figure.add_vline(x=x, line={"color": INK, "width": 1, "dash": "dash"}, layer="below")
    figure.add_annotation(x=x, y=1, yref="paper", yanchor="bottom", text=text, showarrow=False, font_size=11)


def fit_values(figure: go.Figure, group: Group, lines: Sequence[Line]) -> None:
    """A logarithmic y axis where only that shows all numbers."""
    if wide(group, lines):
        ticks = [float(f"{digit}e{power}") for power in range(-6, 12) for digit in (1, 2, 5)]
        # plotly's own words for 20 are "2"
        figure.update_yaxes(type="log", tickvals=ticks, ticktext=[f"{tick:g}" for tick in ticks])


def outline(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[list[Any], list[Any]]:
    """The area between low and high, a closed path for each stretch without a gap."""
    finite = np.isfinite(low) & np.isfinite(high)
    xs: list[Any] = []
    ys: list[Any] = []
    for stretch in np.split(np.arange(len(x)), np.flatnonzero(np.diff(finite)) + 1):
        if finite[stretch[0]]:
            xs += [*x[stretch], *x[stretch][::-1], None]
            ys += [*low[stretch], *high[stretch][::-1], None]
    return xs, ys


def see_through(colour: str) -> str:
    """A colour as that of a band."""
    return f"rgba({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))}, 0.15)"


def numbers_of(group: Group, lines: Sequence[Line], points: Sequence[str], axis: str) -> Numbers:
    """What a figure of lines shows, in full precision and in its units."""
    found: Numbers = []
    for line in lines:
        for point, value, low, high in zip(points, *curve(line, points, group), strict=True):
            cell = line.cells[point]
            words = {"encoding": line.label, axis: point, group.metric.label: blank_if_nan(value)}
            found.append(words | {"low": blank_if_nan(low), "high": blank_if_nan(high), "runs": cell.runs,
                                  "status": cell.status})  # fmt: skip
    return found


def blank_if_nan(value: float) -> float | str:
    return "" if math.isnan(value) else float(value)
