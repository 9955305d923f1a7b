"""Lines of papers beside those of a report, on an axis that both share: the ratio to the trained size."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
from plotly.subplots import make_subplots

from ..figures import COLOURS, INK, place
from ..groups import Group
from ..published import Published
from .canvas import GRID, Chart, Numbers, add_line, blank, fit_values, numbers_of

RATIOS = [0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 8, 16, 32]
DASHES = ("dash", "dot", "dashdot", "longdash", "longdashdot")


def beside(published: Published, group: Group, style: Sequence[str]) -> Chart:
    """Ours above, theirs below: two scales of y, one of x. A line of theirs has the colour of ours that is like it."""
    label = group.metric.label
    figure = make_subplots(rows=2, shared_xaxes=True, vertical_spacing=0.06, figure=blank("", "", height=640))
    trained = group.lines[0].subjects[0].train_size
    squares = [size for size in group.sizes if "x" not in size]
    x = np.array([place(size) / place(trained) for size in squares])
    for line in group.lines:
        add_line(figure, line, squares, x, group, style, row=1, col=1)
    colours = {line.subjects[0].pos: COLOURS[style.index(line.label) % len(COLOURS)] for line in group.lines}
    ratios = [size / published.trained for size in published.sizes]
    numbers: Numbers = [{"whose": "this report", **each} for each in numbers_of(group, group.lines, squares, "size")]
    for number, (name, values) in enumerate(published.lines.items()):
        figure.add_scatter(
            x=ratios,
            y=values,
            name=f"published: {escape(name)}",
            mode="lines+markers",
            line={
                "color": colours.get(published.like.get(name, ""), INK),
                "width": 1.2,
                "dash": DASHES[number % len(DASHES)],
            },
            marker={"size": 4},
            hovertext=[f"published: {escape(name)} at {size}: {value}" for size, value in zip(published.sizes, values)],
            hoverinfo="text",
            row=2,
            col=1,
        )
        for size, value in zip(published.sizes, values, strict=True):
            words = {"whose": "published", "encoding": name, "size": size, label: "" if value is None else value}
            numbers.append(words | dict.fromkeys(("low", "high", "runs", "status"), ""))
    figure.add_vline(x=1, line={"color": INK, "width": 1, "dash": "dash"}, layer="below")
    figure.update_xaxes(
        type="log", showgrid=False, automargin=True, tickvals=RATIOS, ticktext=[f"{r:g}" for r in RATIOS]
    )
    figure.update_xaxes(title="size / trained size", row=2, col=1)
    figure.update_yaxes(gridcolor=GRID, zeroline=False, automargin=True)
    fit_values(figure, group, group.lines)
    figure.update_yaxes(title="this report", row=1, col=1)
    figure.update_yaxes(title="published", row=2, col=1)
    says = (
        f"{label}. Published lines, for their shape only, never ranked with those of this report: {published.title}. "
        f"Source: {published.source}. Setup: {published.setup}."
    )
    return Chart(figure, says, numbers)
