"""From rows to what is compared with what: groups of equal budget, a line an encoding, a cell a size."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .base import Evaluator, Metric, Size, parse_size
from .results import Row
from .statistics import format_deviation, format_interval, mean_and_deviation

# what may differ between two runs of one group without being an experiment of its own
IGNORED = (
    "choices", "overrides", "seed", "runs", "reports", "resume", "compile", "epochs", "steps", "experiment",
    "logger", "evaluate", "validate_every", "workers", "device_batch_size", "hardware.accelerator",
    "hardware.devices", "hardware.num_nodes", "hardware.strategy", "hardware.deterministic",
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A trained model in a comparison, and the rows that were measured of it."""

    run: str
    model: str
    pos: str
    seed: str
    data: str
    train_size: str
    budget: str  # in words
    settings: dict[str, str]  # the flat configuration without what changes no result
    identity: str  # protocol: rows of another one are another question
    rows: list[Row] = field(default_factory=list)

    @property
    def group(self) -> tuple[str, ...]:
        """Only runs that agree in all of this are ranked."""
        shared = {name: value for name, value in self.settings.items() if name.split(".")[0] in ("model", "data")}
        return self.model, self.data, self.train_size, self.budget, self.identity, json.dumps(shared, sort_keys=True)


@dataclass(frozen=True)
class Cell:
    """An encoding at a size. `low` and `high` are an interval over samples, or mean -+ deviation of `runs` seeds."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    runs: int = 0
    status: str = "ok"

    @property
    def defined(self) -> bool:
        return self.runs > 0

    @property
    def kind(self) -> str:
        """not defined, out of memory, failed; empty where nobody asked."""
        return self.status.partition(":")[0]


@dataclass(frozen=True)
class Line:
    """All runs of one encoding in one group."""

    label: str
    subjects: list[Subject]
    cells: dict[str, Cell]

    def text(self, size: str, metric: Metric, interval: bool = True) -> str:
        """The cell at a size in characters; several seeds as mean ± sd, one run with its interval."""
        cell = self.cells[size]
        if not cell.defined:
            return cell.kind
        if cell.runs == 1:
            low, high = (cell.low, cell.high) if interval else (math.nan, math.nan)
            text = format_interval(cell.value, low, high, metric.percent)
        else:
            text = format_deviation(cell.value, cell.high - cell.value, metric.percent)
        return text if cell.runs == len(self.subjects) else f"{text} (n={cell.runs})"


@dataclass(frozen=True)
class Group:
    """Runs that may be ranked: one model, one data set, one training budget."""

    title: str
    metric_name: str
    metric: Metric
    trained: str
    sizes: list[str]  # from small to large
    lines: list[Line]  # best first, by the metric at the trained size


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """{"model": {"dim": 64}} -> {"model.dim": "64"}, without what changes no result."""
    flat: dict[str, str] = {}
    for name, value in config.items():
        path = f"{prefix}{name}"
        if path in IGNORED:
            continue
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{path}.")
        else:
            flat[path] = value if isinstance(value, str) else json.dumps(value)
    return flat


def differences(settings: Sequence[Mapping[str, str]], among: Iterable[str] = ()) -> list[str]:
    """Keys whose values differ, those that start with a word of `among` only where it is given."""
    words = tuple(among)
    keys = sorted({name for each in settings for name in each if not words or name.split(".")[0] in words})
    return [name for name in keys if len({each.get(name) for each in settings}) > 1]


def make_groups(subjects: Sequence[Subject], evaluator: type[Evaluator]) -> list[Group]:
    """Subjects of one evaluator, sorted into groups; a group never holds two budgets."""
    members: dict[tuple[str, ...], list[Subject]] = defaultdict(list)
    for subject in subjects:
        members[subject.group].append(subject)
    titles = {group: f"{each[0].model} on {each[0].data}, {each[0].budget}" for group, each in members.items()}
    groups = []
    for group, each in members.items():
        alike = [members[other][0].settings for other, title in titles.items() if title == titles[group]]
        extra = "".join(f", {name}={each[0].settings.get(name)}" for name in differences(alike, ("model", "data")))
        groups.append(make_group(titles[group] + extra, each, evaluator))
    return sorted(groups, key=lambda group: group.title)


def make_group(title: str, subjects: list[Subject], evaluator: type[Evaluator]) -> Group:
    measured = {row["metric"] for subject in subjects for row in subject.rows}
    name = next((name for name in evaluator.metrics if name in measured), next(iter(evaluator.metrics)))
    metric = evaluator.metrics[name]
    trained = subjects[0].train_size
    seen: dict[str, Size] = {row["size"]: parse_size(row["size"]) for subject in subjects for row in subject.rows}
    axes = max((len(size) for size in seen.values()), default=1)
    # 28 beside 28x56 is a square
    order = {word: math.prod(size * axes if len(size) < axes else size) for word, size in seen.items()}
    sizes = sorted(seen, key=lambda word: (order[word], word))
    lines = [
        Line(label, each, {size: make_cell(each, size, name) for size in sizes})
        for label, each in label_lines(subjects)
    ]

    def rank(line: Line) -> tuple[bool, float, str]:
        value = line.cells[trained].value if trained in line.cells else math.nan
        return math.isnan(value), -value if metric.higher_is_better else value, line.label

    return Group(title, name, metric, trained, sizes, sorted(lines, key=rank))


def label_lines(subjects: list[Subject]) -> list[tuple[str, list[Subject]]]:
    """Runs with equal settings are seeds of one line. Lines of one encoding are told apart by what differs."""
    lines: dict[str, list[Subject]] = defaultdict(list)
    for subject in subjects:
        lines[json.dumps([subject.pos, subject.settings], sort_keys=True)].append(subject)
    labelled = []
    for each in lines.values():
        first = each[0]
        same_word = [other[0].settings for other in lines.values() if other[0].pos == first.pos]
        extra = "".join(f" {name}={first.settings.get(name)}" for name in differences(same_word))
        labelled.append((first.pos + extra, sorted(each, key=lambda subject: (subject.seed, subject.run))))
    return labelled


def make_cell(subjects: list[Subject], size: str, metric: str) -> Cell:
    rows = [row for subject in subjects for row in subject.rows if row["size"] == size]
    numbers = [row for row in rows if row["metric"] == metric and row["status"] == "ok"]
    if not numbers:
        return Cell(status=rows[0]["status"] if rows else "")
    if len(numbers) == 1:
        value, low, high = (float(numbers[0][column]) for column in ("value", "ci_low", "ci_high"))
        return Cell(value, low, high, 1)
    mean, deviation = mean_and_deviation([float(row["value"]) for row in numbers])
    return Cell(mean, mean - deviation, mean + deviation, len(numbers))
