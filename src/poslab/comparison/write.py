"""The report of a comparison: subjects sorted into groups, and the files that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..evaluators import EVALUATORS
from ..evaluators.figures import draw, draw_profile
from ..evaluators.groups import Comparison, make_groups
from ..evaluators.lines import Subject
from ..evaluators.measure import Job
from ..evaluators.paper import write_tables
from ..evaluators.published import Published
from ..evaluators.report import Provenance, Section, write_report
from ..results_file import Row
from ..run import Run
from .jobs import subject

PAGE = "report.html"


def write(
    directory: Path,
    jobs: Sequence[tuple[Job, Run]],
    rows: Sequence[Row],
    comparison: Comparison,
    options: Mapping[str, Any],
    notes: Sequence[str],
    command: str,
    page: bool,
    published: Published | None,
) -> list[Section]:
    """report.md with its figures, the tables for a paper, and report.html if `page`; returns what they show."""
    subjects: dict[str, list[Subject]] = {name: [] for name in EVALUATORS}
    for job, run in jobs:
        subjects[job.evaluator.name].append(subject(job, run, rows))
    notes = list(notes)
    sections = []
    found = {name: make_groups(subjects[name], kind, comparison) for name, kind in EVALUATORS.items()}
    style = sorted({line.label for groups in found.values() for metrics in groups for line in metrics[0].lines})
    for name, kind in EVALUATORS.items():
        groups = found[name]
        figures: list[list[str]] = []
        for number, metrics in enumerate(groups):
            stem = f"figures/{name}{f'-{number + 1}' if number else ''}"
            figures.append([f"{stem}.png"])
            draw(directory / figures[-1][0], metrics[0], kind, style)
            for group in metrics:
                for size in group.profiles:
                    figures[-1].append(f"{stem}-{group.metric_name}-at-{size}.png")
                    draw_profile(directory / figures[-1][-1], group, size, kind, style)
            if kind.compared and comparison.baseline and metrics[0].baseline is None:
                notes.append(f"{metrics[0].title}: no line, or more than one, is {comparison.baseline}: not compared.")
        if groups:
            sections.append(Section(kind, groups, figures))
    if published and not any(
        published.suits(section.evaluator.name, group.metric_name)
        for section in sections for metrics in section.groups for group in metrics
    ):  # fmt: skip
        notes.append(f"published: {published.title} is about {published.evaluator}, which was not asked here.")
    interval = f"{100 * options['confidence']:g} % bootstrap intervals ({options['bootstrap']} resamples, percentile)"
    everyone = [each for name in EVALUATORS for each in subjects[name]]
    hidden = len(rows) - sum(len(each.rows) for each in everyone)
    if hidden:
        notes.append(f"results.csv also holds {hidden} rows of other runs or protocols, which are not shown here.")
    states = {run.name: run.summary.get("status", "") for _, run in jobs}
    made = Provenance(command, options["checkpoint"], interval, everyone, states, notes)
    title = f"Report {directory.name}"
    write_report(directory / "report.md", title, made, sections, PAGE if page else None)
    write_tables(directory, sections)
    if page:
        from ..evaluators.page import write_page  # plotly takes a second, and training writes no page

        write_page(directory / PAGE, title, made, sections, style, published)
    return sections
