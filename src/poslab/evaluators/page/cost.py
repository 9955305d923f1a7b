"""Quality against cost: what an encoding gives at the size of the ranking, and what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ..base import Evaluator
from ..figures import curve
from ..groups import Group
from ..report import Section
from .canvas import Chart, Numbers, blank, fit_values, hover, looks


def against_cost(
    quality: Group, evaluator: type[Evaluator], sections: Sequence[Section], style: Sequence[str]
) -> dict[str, Chart]:
    """A chart for each number that the evaluator `cost` measured of the same lines; {} where it was not asked."""
    if evaluator.name == "cost":
        return {}
    costs = [group for section in sections if section.evaluator.name == "cost"
             for metrics in section.groups for group in metrics if group.title == quality.title]  # fmt: skip
    found = {cost.metric.label: scatter(quality, cost, style) for cost in costs}
    return {label: chart for label, chart in found.items() if chart.numbers}


def scatter(quality: Group, cost: Group, style: Sequence[str]) -> Chart:
    """A point an encoding, with the spread of both."""
    figure = blank(quality.metric.label, cost.metric.label)
    figure.update_layout(showlegend=False)
    costly = {line.label: line for line in cost.lines}
    numbers: Numbers = []
    drawn = []
    for line in quality.lines:
        other = costly.get(line.label)
        if other is None or not line.cells[quality.reference].defined or not other.cells[cost.reference].defined:
            continue
        (y,), (y_low,), (y_high,) = curve(line, [quality.reference], quality)
        (x,), (x_low,), (x_high,) = curve(other, [cost.reference], cost)
        colour, symbol = looks(line, style)
        figure.add_scatter(
            x=[x],
            y=[y],
            error_x={"type": "data", "array": [x_high - x], "arrayminus": [x - x_low], "width": 0, "thickness": 1},
            error_y={"type": "data", "array": [y_high - y], "arrayminus": [y - y_low], "width": 0, "thickness": 1},
            mode="markers+text",
            text=escape(line.label),
            textposition="top center",
            marker={"color": colour, "symbol": symbol, "size": 10},
            hovertext=f"{hover(line, quality.reference, quality)}<br>{hover(other, cost.reference, cost)}",
            hoverinfo="text",
        )
        numbers.append({"encoding": line.label, cost.metric.label: x, quality.metric.label: y,
                        "low": y_low, "high": y_high})  # fmt: skip
        drawn.append(line)
    fit_values(figure, quality, drawn)
    if numbers:  # room for the words beside the outermost points
        places = [each[cost.metric.label] for each in numbers]
        room = 0.15 * (max(places) - min(places)) or 1.0
        figure.update_xaxes(range=[min(places) - room, max(places) + room])
    better = "high" if quality.metric.higher_is_better else "low"
    cheaper = "right" if cost.metric.higher_is_better else "left"
    says = (
        f"{quality.metric.label} at {quality.reference} against {cost.metric.label} at {cost.reference}: "
        f"{better} and to the {cheaper} is good."
    )
    return Chart(figure, says, numbers)
