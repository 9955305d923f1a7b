"""report.md: how the numbers were made, then a table and a figure for each group."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..files import write
from .base import Evaluator
from .groups import Group
from .lines import Subject

CROSS = (
    "Runs are ranked only within one model, data set and training budget. "
    "Each section below is one such group; numbers of different sections are not comparable."
)
RUN = ("run", "model", "encoding", "data", "trained at", "seed", "training")  # what is told of each


@dataclass(frozen=True)
class Section:
    """What one evaluator found: its groups, each as one group a metric, and the figures of each."""

    evaluator: type[Evaluator]
    groups: list[list[Group]]
    figures: list[list[str]]


@dataclass(frozen=True)
class Provenance:
    """How a report was made."""

    command: str
    checkpoint: str
    interval: str  # how an interval was computed
    subjects: Sequence[Subject]
    states: Mapping[str, str]  # run -> status of its training
    notes: Sequence[str]  # what was left out, and what else a reader should know

    @property
    def protocols(self) -> list[str]:
        return list(dict.fromkeys(subject.identity for subject in self.subjects))

    @property
    def runs(self) -> list[tuple[str, ...]]:
        """A row of `RUN` a run: once, however much was asked of it."""
        rows = (
            (each.run, each.model, each.pos, each.data, each.train_size, each.seed, self.states.get(each.run, ""))
            for each in self.subjects
        )
        return list(dict.fromkeys(rows))


def write_report(
    path: Path, title: str, made: Provenance, sections: Sequence[Section], page: str | None = None
) -> None:
    """Write report.md; a reader never sees half of it. `page` is the file that shows the same interactively."""
    blocks = [f"# {title}"]
    if page:
        blocks.append(f"The same with figures to look around in: [{page}]({page}).")
    blocks += provenance(made)
    if sum(len(section.groups) for section in sections) > 1:
        blocks.append(CROSS)
    for section in sections:
        blocks.append(f"## {section.evaluator.question}")
        for metrics, figures in zip(section.groups, section.figures, strict=True):
            blocks.append(f"### {escape(metrics[0].title)}")
            if section.evaluator.by_metric:
                blocks += overview(metrics, section.evaluator)
            for group in metrics:
                if section.evaluator.by_metric and (group.metric.exact or len(group.sizes) == 1):
                    continue  # the overview has said it, or nearly all of it
                blocks += [*table(group, section.evaluator), *differences(group)]
                blocks += [each for size in group.profiles for each in profile(group, size, section.evaluator)]
            blocks += [f"![{section.evaluator.question}]({figure})" for figure in figures]
    write(path, "\n\n".join(blocks) + "\n")


def provenance(made: Provenance) -> list[str]:
    blocks = ["## How it was made", f"    {made.command}"]
    blocks.append("\n".join(f"- protocol: {protocol}" for protocol in made.protocols))
    blocks.append(
        f"The {made.checkpoint} checkpoint of each run was measured. Brackets are {made.interval}. "
        "A ± is the standard deviation over training seeds around their mean. Numbers end where their uncertainty "
        "begins. All metrics and full precision: [results.csv](results.csv)."
    )
    blocks.append(markdown_table(RUN, made.runs, align=":---"))
    if made.notes:
        blocks.append("Notes:\n\n" + "\n".join(f"- {escape(note)}" for note in made.notes))
    return blocks


def table(group: Group, evaluator: type[Evaluator]) -> list[str]:
    """The table of a group, what its numbers are, and footnotes for the sizes without one."""
    repeated = any(len(line.subjects) > 1 for line in group.lines)
    head = ["encoding", *(["seeds"] if repeated else []), *(bold(size, group) for size in group.sizes)]
    letters, footnotes = footnote(group)
    rows = []
    for line in group.lines:
        cells = [line.text(size, group.metric) + letters.get((line.label, size), "") for size in group.sizes]
        cells = [bold(cell, group, size) if cell else cell for cell, size in zip(cells, group.sizes, strict=True)]
        rows.append([line.label, *([str(len(line.subjects))] if repeated else []), *cells])
    says = f"{group.metric.label[0].upper()}{group.metric.label[1:]} by {evaluator.axis}; **bold**: {evaluator.mark}."
    if group.ranked and group.ranked != group.reference:
        says += f" Ranked at {group.ranked}."
    blocks = [f"{says} {uncertainty(group)}", markdown_table(head, rows)]
    if footnotes:
        blocks.append("\n".join(f"- {note}" for note in footnotes))
    return blocks


def overview(metrics: Sequence[Group], evaluator: type[Evaluator]) -> list[str]:
    """The table of all metrics at the reference size."""
    first, size = metrics[0], metrics[0].reference
    columns: list[list[str]] = []
    notes: list[str] = []
    for group in metrics:
        marks, more = footnote(replace(group, sizes=[size]), before=len(notes))
        notes += more
        columns.append([line.text(size, group.metric) + marks.get((line.label, size), "") for line in group.lines])
    rows = [[line.label, *cells] for line, *cells in zip(first.lines, *columns, strict=True)]
    says = f"At {size}, the {evaluator.mark}. {uncertainty(first)} Counts have no interval."
    blocks = [says, markdown_table(["encoding", *(group.metric.label for group in metrics)], rows)]
    if notes:
        blocks.append("\n".join(f"- {note}" for note in notes))
    return blocks


def differences(group: Group) -> list[str]:
    """The table of differences from the baseline; nothing where there is none."""
    if not group.differences:
        return []
    sizes = group.compared_sizes
    rows = [
        [line.label, *(group.verdict(line, size) for size in sizes)]
        for line in group.lines
        if line.label != group.baseline
    ]
    says = (
        f"{group.metric.label} minus that of **{escape(group.baseline or '')}** on the same samples. `better` and "
        "`worse`: p, corrected for the number of encodings (Holm), is below the level; `=`: not separable."
    )
    if all(len(line.subjects) == 1 for line in group.lines):
        says += " One run an encoding: this is about these trained models, another seed may say otherwise."
    return [says[0].upper() + says[1:], markdown_table(["encoding", *(bold(size, group) for size in sizes)], rows)]


def profile(group: Group, size: str, evaluator: type[Evaluator]) -> list[str]:
    """The table of a metric's parts at one size."""
    lines = group.profiles[size]
    parts = list(lines[0].cells)
    rows = [[line.label, *(line.text(part, group.metric, interval=False) for part in parts)] for line in lines]
    says = f"{group.metric.label} by {evaluator.profiles[group.metric_name]}, at {size}."
    return [says[0].upper() + says[1:], markdown_table(["encoding", *parts], rows)]


def uncertainty(group: Group) -> str:
    """Which spread the numbers of a group carry."""
    counts = {len(line.subjects) for line in group.lines}
    if counts == {1}:
        return "One run an encoding: brackets are the interval over its samples, and say nothing about other seeds."
    if 1 not in counts:
        return "Mean ± standard deviation over seeds."
    return "Several seeds: mean ± standard deviation over them. One seed: the interval over its samples in brackets."


def escape(text: str) -> str:
    """Text that Markdown prints as it is."""
    return "".join(f"\\{each}" if each in "\\`*_<>|" else each for each in text)


def footnote(
    group: Group, before: int = 0, quote: Callable[[str], str] = escape
) -> tuple[dict[tuple[str, str], str], list[str]]:
    """(line, size) -> " (a)", and what (a) means: one note for a reason, in the words of its first size.

    `before` notes of the same table come first.
    """
    shared: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for line in group.lines:
        reasons: dict[str, list[str]] = {}
        for size in group.sizes:
            cell = line.cells[size]
            if not cell.defined and cell.kind:
                # the same sentence about other numbers is the same reason
                reasons.setdefault(re.sub(r"\d+", "0", cell.status), []).append(size)
        for missing in reasons.values():
            shared.setdefault((line.cells[missing[0]].status, tuple(missing)), []).append(line.label)
    letters: dict[tuple[str, str], str] = {}
    notes: list[str] = []
    for (status, sizes), labels in shared.items():
        mark = f"({letter(before + len(notes))})"
        letters |= {(label, size): f" {mark}" for label in labels for size in sizes}
        kind, _, why = status.partition(": ")
        also = f" Likewise at {', '.join(sizes[1:])}." if len(sizes) > 1 else ""
        notes.append(
            f"{mark} {quote(', '.join(labels))}: {kind} at {sizes[0]}{': ' + quote(why) if why else '.'}{also}"
        )
    return letters, notes


def letter(number: int) -> str:
    """0 -> a, 25 -> z, 26 -> aa."""
    return (letter(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def bold(text: str, group: Group, size: str | None = None) -> str:
    return f"**{text}**" if (size or text) == group.reference else text


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], align: str = "---:") -> str:
    """First column to the left, the others as `align`; bold words stay bold."""
    lines = [list(head), [":---", *[align] * (len(head) - 1)]]
    for row in rows:
        lines.append([cell if cell.startswith("**") else escape(cell) for cell in row])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
