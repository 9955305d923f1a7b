"""What is compared with what: groups of equal budget, a line an encoding, a cell a size."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ..results_file import key
from .base import Evaluator, Measurement, Metric, Size, parse_size
from .differences import Difference, corrected, difference
from .lines import Line, Subject, label_lines, make_cell
from .samples import Samples
from .settings import differing
from .statistics import format_interval


@dataclass(frozen=True)
class Group:
    """One metric of runs that may be ranked: one model, one data set, one training budget."""

    title: str
    metric_name: str
    metric: Metric
    reference: str
    sizes: list[str]  # from small to large
    lines: list[Line]  # best first, by the first metric of its evaluator at `ranked`
    profiles: dict[str, list[Line]] = field(default_factory=dict)  # size -> lines whose cells are the metric's parts
    baseline: str | None = None
    differences: dict[tuple[str, str], Difference] = field(default_factory=dict)  # (label, size) -> from the baseline
    ranked: str = ""  # the size by which lines are ordered; "": the reference

    @property
    def compared_sizes(self) -> list[str]:
        """Those at which a line differs from the baseline, or might."""
        return [size for size in self.sizes if any((line.label, size) in self.differences for line in self.lines)]

    def verdict(self, line: Line, size: str) -> str:
        """`+0.12 [0.05, 0.19] better`: a difference in words; empty where there is none."""
        each = self.differences.get((line.label, size))
        if each is None:
            return ""
        good = (each.value > 0) == self.metric.higher_is_better
        word = ("better" if good else "worse") if each.separable else "="
        sign = "+" if each.value > 0 else ""
        return f"{sign}{format_interval(each.value, each.low, each.high, self.metric.percent)} {word}"


@dataclass(frozen=True)
class Comparison:
    """How encodings of a group are compared: with which baseline, if any, from which samples."""

    baseline: str | None
    samples: Samples
    resamples: int = 2000
    confidence: float = 0.95


def make_groups(
    subjects: Sequence[Subject], evaluator: type[Evaluator], comparison: Comparison | None = None
) -> list[list[Group]]:
    """Subjects of one evaluator, sorted into groups of one budget each; of every group one for each metric measured."""
    members: dict[tuple[str, ...], list[Subject]] = defaultdict(list)
    for subject in subjects:
        members[subject.group].append(subject)
    titles = {group: f"{each[0].model} on {each[0].data}, {each[0].budget}" for group, each in members.items()}
    groups = []
    for group, each in members.items():
        alike = [members[other][0].settings for other, title in titles.items() if title == titles[group]]
        extra = "".join(f", {name}={each[0].settings.get(name)}" for name in differing(alike, ("model", "data")))
        groups.append(make_group(titles[group] + extra, each, evaluator, comparison))
    return sorted(groups, key=lambda group: group[0].title)


def make_group(
    title: str, subjects: list[Subject], evaluator: type[Evaluator], comparison: Comparison | None = None
) -> list[Group]:
    """A group for each metric, that of the first metric first, with the same lines in the same order."""
    measured = {row["metric"] for subject in subjects for row in subject.rows}
    names = [name for name in evaluator.metrics if name in measured] or [next(iter(evaluator.metrics))]
    reference = subjects[0].reference
    ranked = subjects[0].ranked or reference
    sizes = ordered_sizes(row["size"] for subject in subjects for row in subject.rows)
    labelled = label_lines(subjects)
    first = evaluator.metrics[names[0]]

    def rank(line: Line) -> tuple[bool, float, str]:
        value = line.cells[ranked].value if ranked in line.cells else math.nan
        return math.isnan(value), -value if first.higher_is_better else value, line.label

    order: list[str] = []
    groups = []
    for name in names:
        lines = [Line(label, each, {size: make_cell(each, size, name) for size in sizes}) for label, each in labelled]
        order = order or [line.label for line in sorted(lines, key=rank)]
        lines.sort(key=lambda line: order.index(line.label))
        profiles = make_profiles(lines, sizes, name, measured)
        group = Group(title, name, evaluator.metrics[name], reference, sizes, lines, profiles, ranked=ranked)
        groups.append(compare_lines(group, comparison) if comparison and evaluator.compared else group)
    return groups


def make_profiles(lines: Sequence[Line], sizes: Sequence[str], name: str, measured: set[str]) -> dict[str, list[Line]]:
    """Size -> lines over the parts of a metric, such as `loss@4-7` and `loss@8-15`, at the sizes that have them."""
    parts = {metric.partition("@")[2] for metric in measured if metric.startswith(f"{name}@")}
    found: dict[str, list[Line]] = {}
    for size in sizes if parts else []:
        there = {
            row["metric"] for line in lines for subject in line.subjects for row in subject.rows if row["size"] == size
        }
        ordered = sorted(
            (each for each in parts if f"{name}@{each}" in there), key=lambda each: int(each.split("-")[0])
        )
        if ordered:
            found[size] = [
                replace(line, cells={part: make_cell(line.subjects, size, f"{name}@{part}") for part in ordered})
                for line in lines
            ]
    return found


def ordered_sizes(words: Iterable[str]) -> list[str]:
    """Sizes from small to large, each once."""
    seen: dict[str, Size] = {word: parse_size(word) for word in words}
    axes = max((len(size) for size in seen.values()), default=1)
    # 28 beside 28x56 is a square
    order = {word: math.prod(size * axes if len(size) < axes else size) for word, size in seen.items()}
    return sorted(seen, key=lambda word: (order[word], word))


def compare_lines(group: Group, comparison: Comparison) -> Group:
    """The group with the difference of each line from the baseline, at every size that both are defined at."""
    base = baseline_line(group.lines, comparison.baseline)
    if base is None:
        return group
    found: dict[tuple[str, str], Difference] = {}
    for size in group.sizes:
        theirs = kept(base, size, group.metric_name, comparison.samples)
        at_size: dict[str, Difference] = {}
        for line in group.lines:
            ours = kept(line, size, group.metric_name, comparison.samples) if line is not base else None
            if ours and theirs:
                numbers = comparison.resamples, comparison.confidence
                at_size[line.label] = difference(ours, theirs, group.metric_name, *numbers)
        found |= {(label, size): each for label, each in corrected(at_size, comparison.confidence).items()}
    return replace(group, baseline=base.label, differences=found)


def baseline_line(lines: Sequence[Line], word: str | None) -> Line | None:
    """The line that is called so, or the only one of that encoding."""
    alike = [line for line in lines if line.label == word] or [line for line in lines if line.subjects[0].pos == word]
    return alike[0] if len(alike) == 1 else None


def kept(line: Line, size: str, metric: str, samples: Samples) -> list[Measurement] | None:
    """The samples of all runs of a line at a size; None where one has none."""
    rows = [row for subject in line.subjects for row in subject.rows if row["size"] == size and row["metric"] == metric]
    found = [samples.load(key(row)) for row in rows if row["status"] == "ok"]
    there = [each for each in found if each is not None]
    return there if there and len(there) == len(found) else None
