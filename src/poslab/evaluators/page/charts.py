"""The figures of report.html: curves, profiles, heat map, differences from the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from ..base import Evaluator
from ..figures import INK, by_shape, caption, chance, curve, place, scale, wide
from ..groups import Group
from ..lines import Line
from .canvas import Chart, Numbers, add_line, add_points, blank, fit_values, hover, looks, mark, numbers_of

MISSING = "#E8E8E8"


def curves(group: Group, evaluator: type[Evaluator], style: Sequence[str]) -> Chart:
    """The metric against size, a line and its band an encoding; sizes of another shape are points beside the lines."""
    figure = blank(group.metric.label, evaluator.axis)
    on_line, other = by_shape(group)

    def x(sizes: Sequence[str]) -> np.ndarray:
        places = np.array([place(size) for size in sizes])
        return np.log2(places) if evaluator.logarithmic else places

    for line in group.lines:
        add_line(figure, line, on_line, x(on_line), group, style)
        if other:
            add_points(figure, line, other, x(other), group, style)
    if guessing := chance(group, evaluator, on_line):
        value = curve(guessing, on_line, group)[0]
        figure.add_scatter(x=x(on_line), y=value, name="chance", mode="lines", hoverinfo="y+name",
                           line={"color": INK, "width": 1.2, "dash": "dash"})  # fmt: skip
    for size in other:
        figure.add_annotation(
            x=x([size])[0], y=0, yref="paper", text=size, textangle=-90, showarrow=False, yanchor="bottom", font_size=10
        )
    mark(figure, x([group.reference])[0], evaluator.mark)
    figure.update_xaxes(tickvals=x(on_line), ticktext=on_line)
    fit_values(figure, group, group.lines)
    return Chart(figure, f"{caption(group).capitalize()}.", numbers_of(group, group.lines, group.sizes, "size"))


def profile(group: Group, size: str, evaluator: type[Evaluator], style: Sequence[str]) -> Chart:
    """A metric's parts at one size, such as the loss by position."""
    lines = group.profiles[size]
    parts = list(lines[0].cells)
    axis = evaluator.profiles[group.metric_name]
    figure = blank(group.metric.label, axis)
    for line in lines:
        add_line(figure, line, parts, np.arange(len(parts)), group, style)
    figure.update_xaxes(tickvals=list(range(len(parts))), ticktext=parts)
    fit_values(figure, group, lines)
    return Chart(figure, f"{group.metric.label} by {axis}, at {size}.", numbers_of(group, lines, parts, axis))


def heat_map(group: Group) -> Chart:
    """Encodings down, sizes across; bright is good, and what is not defined says so on grey."""
    values = np.array([curve(line, group.sizes, group)[0] for line in group.lines])
    colour = np.log10(values) if wide(group, group.lines) else values
    labels = [escape(line.label) for line in group.lines]
    sizes = [f"<b>{size}</b>" if size == group.reference else size for size in group.sizes]
    cells = [[line.cells[size] for size in group.sizes] for line in group.lines]
    text = [[brief(line, size, group) for size in group.sizes] for line in group.lines]
    figure = blank("", "", height=124 + 34 * len(labels))
    shared: dict[str, Any] = {"x": sizes, "y": labels, "showscale": False, "xgap": 2, "ygap": 2, "hoverinfo": "text",
                              "hoverongaps": False}  # fmt: skip
    figure.add_heatmap(
        z=colour,
        text=text,
        texttemplate="%{text}",
        colorscale="Cividis",  # made for eyes of every kind: Nunez, Anderton & Renslow 2018
        reversescale=not group.metric.higher_is_better,
        hovertext=[[hover(line, size, group) for size in group.sizes] for line in group.lines],
        **shared,
    )
    figure.add_heatmap(
        z=[[0 if not cell.defined and cell.kind else None for cell in row] for row in cells],
        text=[["" if cell.defined else cell.kind.replace(" ", "<br>") for cell in row] for row in cells],
        texttemplate="%{text}",
        colorscale=[[0, MISSING], [1, MISSING]],
        hovertext=[[escape(f"{line.label} at {size}: {line.cells[size].status}") for size in group.sizes]
                   for line in group.lines],
        **shared,
    )  # fmt: skip
    figure.update_xaxes(type="category", side="top", showgrid=False)
    figure.update_yaxes(type="category", autorange="reversed", showgrid=False)
    return Chart(figure, f"{group.metric.label}: bright is good.", numbers_of(group, group.lines, group.sizes, "size"))


def brief(line: Line, size: str, group: Group) -> str:
    """A cell's mean without its deviation; nothing where there is none."""
    return line.text(size, group.metric, interval=False).split()[0] if line.cells[size].defined else ""


def forest(group: Group, size: str, style: Sequence[str]) -> Chart:
    """Differences from the baseline at one size, with their intervals; filled marks are separable from it."""
    lines = [line for line in group.lines if (line.label, size) in group.differences]
    factor, label = scale(group), group.metric.label
    figure = blank("", "better →" if group.metric.higher_is_better else "← better")
    figure.update_layout(height=124 + 30 * len(lines), showlegend=False)
    numbers: Numbers = []
    for line in lines:
        each = group.differences[line.label, size]
        colour, symbol = looks(line, style)
        figure.add_scatter(
            x=[factor * each.value],
            y=[escape(line.label)],
            error_x={
                "type": "data",
                "array": [factor * (each.high - each.value)],
                "arrayminus": [factor * (each.value - each.low)],
            },
            mode="markers",
            marker={"color": colour, "size": 10, "symbol": symbol if each.separable else f"{symbol}-open"},
            hovertext=escape(f"{line.label} at {size}: {group.verdict(line, size)}, p {each.corrected:.2g} (Holm)"),
            hoverinfo="text",
        )
        numbers.append(
            {"encoding": line.label, "size": size, "difference": factor * each.value, "low": factor * each.low,
             "high": factor * each.high, "p": each.p, "p corrected": each.corrected, "separable": each.separable}
        )  # fmt: skip
    figure.add_vline(x=0, line={"color": INK, "width": 1})
    figure.update_yaxes(type="category", autorange="reversed", range=[-0.5, len(lines) - 0.5])
    says = (
        f"{label} minus that of {group.baseline} on the same samples, at {size}. "
        "Filled marks are separable from it, open ones are not."
    )
    return Chart(figure, says, numbers)
