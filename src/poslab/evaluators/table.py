"""The comparison in the terminal: a table a group, and progress while it is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from .groups import Group
from .report import Section

PLAIN_WIDTH = 240  # columns of a file or a pipe: long lines are better than broken ones


def make_console() -> Console:
    """Colours and width of the terminal; plain long lines anywhere else."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(width=PLAIN_WIDTH, highlight=False, no_color=True)


def print_section(console: Console, section: Section) -> None:
    """A table a group: with sizes across, or down where that is too wide, or without intervals where both are."""
    for metrics in section.groups:
        group = metrics[0]
        title, spread = f"{group.title}: {group.metric.label}", "[interval over the samples of one run]"
        mark = f"* {section.evaluator.mark}"
        if section.evaluator.by_metric:
            title, mark = f"{group.title}: {section.evaluator.question.lower()}", f"at {group.reference}"
            spread, table = "intervals are in the report", by_metric(metrics)
            if Measurement.get(console, console.options.update(max_width=10_000), table).minimum > console.width:
                table = by_metric(metrics, down=True)
        elif not fits(console, table := across(group)) and not fits(console, table := down(group)):
            table, spread = across(group, interval=False), "intervals are in the report"
        if any(len(line.subjects) > 1 for line in group.lines):
            spread = f"± sd over seeds; {spread}"
        # outside the table, which would wrap them at its own width
        console.print(Text(f"\n{title}", style="bold"), soft_wrap=True)
        console.print(table, end="")
        console.print(Text(f"  {mark}; {spread}\n", style="dim"), soft_wrap=True)


def fits(console: Console, table: Table) -> bool:
    # the console's own measure would say that everything fits: it never exceeds the width
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum <= console.width


def across(group: Group, interval: bool = True) -> Table:
    """A row an encoding, a column a size."""
    table = Table(box=box.SIMPLE)
    repeated = any(len(line.subjects) > 1 for line in group.lines)
    table.add_column("encoding", no_wrap=True)
    if repeated:
        table.add_column("seeds", justify="right", no_wrap=True)
    for size in group.sizes:
        table.add_column(heading(size, group), justify="right", no_wrap=True, style="bold" * (size == group.reference))
    for line in group.lines:
        seeds = [Text(str(len(line.subjects)))] if repeated else []
        table.add_row(
            Text(line.label), *seeds, *(Text(line.text(size, group.metric, interval)) for size in group.sizes)
        )
    return table


def down(group: Group) -> Table:
    """A row a size, a column an encoding."""
    table = Table(box=box.SIMPLE)
    table.add_column("size", justify="right", no_wrap=True)
    for line in group.lines:
        table.add_column(Text(line.label), justify="right", no_wrap=True)
    for size in group.sizes:
        cells = [Text(line.text(size, group.metric)) for line in group.lines]
        table.add_row(heading(size, group), *cells, style="bold" * (size == group.reference))
    return table


def by_metric(metrics: Sequence[Group], down: bool = False) -> Table:
    """A row an encoding, a column a metric, at the reference size; or the other way round."""
    table = Table(box=box.SIMPLE)
    size = metrics[0].reference
    columns = [[line.text(size, group.metric, interval=False) for line in group.lines] for group in metrics]
    if down:
        table.add_column("")
        for line in metrics[0].lines:
            table.add_column(Text(line.label), justify="right", no_wrap=True)
        for group, column in zip(metrics, columns, strict=True):
            table.add_row(group.metric.label, *map(Text, column))
        return table
    table.add_column("encoding", no_wrap=True)
    for group, column in zip(metrics, columns, strict=True):
        # labels wrap, numbers do not
        table.add_column(group.metric.label, justify="right", vertical="bottom", min_width=max(map(len, column)))
    for line, *cells in zip(metrics[0].lines, *columns, strict=True):
        table.add_row(Text(line.label), *map(Text, cells))
    return table


def heading(size: str, group: Group) -> Text:
    return Text(f"{size}*" if size == group.reference else size)


class Bar:
    """A progress bar over sizes and runs on a terminal, one calm line a run elsewhere, nothing if `quiet`."""

    def __init__(self, console: Console, total: int, quiet: bool = False) -> None:
        self.console, self.quiet = console, quiet
        columns = (
            TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        self.progress = Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
        self.task = self.progress.add_task("evaluate", total=total)

    def show(self, what: str) -> None:
        self.progress.update(self.task, description=what)

    def advance(self) -> None:
        self.progress.advance(self.task)

    def finished(self, sentence: str) -> None:
        """The end of a run: a line where there is no bar."""
        if not self.quiet and not self.console.is_terminal:
            self.console.print(Text(sentence))


@contextmanager
def progress(console: Console, total: int, quiet: bool = False) -> Iterator[Bar]:
    bar = Bar(console, total, quiet)
    with bar.progress:
        yield bar
