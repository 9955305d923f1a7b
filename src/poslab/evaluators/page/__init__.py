"""report.html: the report as one page to look around in. It opens offline, and asks nobody for anything.

plotly.js is part of the page (4.8 MB, once): the Python package ships no smaller bundle. Everything else
is what report.md says too, and every row behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from plotly.offline import get_plotlyjs

from ...files import write
from ...results_file import COLUMNS
from ..base import Evaluator
from ..groups import Group
from ..published import Published
from ..report import CROSS, RUN, Provenance, Section, footnote, uncertainty
from .beside import beside
from .canvas import Chart
from .charts import curves, forest, heat_map, profile
from .cost import against_cost

SHOWN = [name for name in COLUMNS if name not in ("checkpoint_sha", "protocol")]  # of results.csv in the table


@dataclass(frozen=True)
class Figure:
    """One chart, or several of which a reader chooses one."""

    name: str  # of its files
    charts: dict[str, Chart]  # word of the choice -> chart
    chosen: str
    title: str = ""


@dataclass(frozen=True)
class Panel:
    """A metric of a group: figures around its table."""

    group: Group
    footnotes: list[str]
    curves: Figure
    heat_map: Figure
    differences: Figure | None
    more: list[Figure]


def write_page(
    path: Path,
    title: str,
    made: Provenance,
    sections: Sequence[Section],
    style: Sequence[str],
    published: Published | None = None,
) -> None:
    """Write report.html; a reader never sees half of it.

    Args:
        style: all encodings of the report: one keeps its colour in every figure.
        published: lines of a paper, drawn beside the groups that ask the same question.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pen = Pen(sections, style, published)
    groups = [[pen.panels(section, number) for number in range(len(section.groups))] for section in sections]
    rows = [["" if row[name] == "nan" else row[name] for name in SHOWN] for each in made.subjects for row in each.rows]
    page = environment.from_string(read("page.html")).render(
        title=title,
        made=made,
        about_a_run=RUN,
        cross=CROSS if sum(map(len, groups)) > 1 else "",
        sections=list(zip(sections, groups, strict=True)),
        uncertainty=uncertainty,
        data={"columns": SHOWN, "rows": rows},
        style=read("page.css"),
        scripts=[get_plotlyjs(), read("page.js"), read("table.js")],
    )
    write(path, page)


@dataclass(frozen=True)
class Pen:
    """Draws the groups of one report."""

    sections: Sequence[Section]
    style: Sequence[str]
    published: Published | None

    def panels(self, section: Section, number: int) -> list[Panel]:
        """A panel a metric of a group."""
        evaluator = section.evaluator
        return [
            self.panel(group, evaluator, f"{evaluator.name}-{number + 1}-{group.metric_name}")
            for group in section.groups[number]
        ]

    def panel(self, group: Group, evaluator: type[Evaluator], name: str) -> Panel:
        more = []
        if group.profiles:
            charts = {size: profile(group, size, evaluator, self.style) for size in group.profiles}
            title = f"{group.metric.label} by {evaluator.profiles[group.metric_name]}"
            more.append(Figure(f"{name}-profile", charts, list(charts)[-1], title))
        if charts := against_cost(group, evaluator, self.sections, self.style):
            more.append(Figure(f"{name}-cost", charts, next(iter(charts)), f"{group.metric.label} against cost"))
        if self.published and self.published.suits(evaluator.name, group.metric_name):
            chart = beside(self.published, group, self.style)
            more.append(Figure(f"{name}-published", {"": chart}, "", "Beside published lines"))
        return Panel(
            group,
            footnote(group, quote=str)[1],
            one(f"{name}-curves", curves(group, evaluator, self.style)),
            one(f"{name}-table", heat_map(group)),
            self.differences(group, name),
            more,
        )

    def differences(self, group: Group, name: str) -> Figure | None:
        sizes = group.compared_sizes
        if not sizes:
            return None
        chosen = group.reference if group.reference in sizes else sizes[0]
        charts = {size: forest(group, size, self.style) for size in sizes}
        return Figure(f"{name}-differences", charts, chosen)


def one(name: str, chart: Chart) -> Figure:
    return Figure(name, {"": chart}, "")


def read(name: str) -> str:
    """A file beside this one, also of an installed package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
