"""From rows to a line of a table: the runs of one encoding, and what they say at each size."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field

from ..results_file import Row
from .base import Metric
from .settings import differing
from .statistics import format_deviation, format_exact, format_interval, mean_and_deviation


@dataclass(frozen=True)
class Subject:
    """A trained model in a comparison, and the rows that were measured of it."""

    run: str
    model: str
    pos: str
    seed: str
    data: str
    train_size: str
    reference: str  # the size that is marked, and where it is ranked
    budget: str  # in words
    settings: dict[str, str]  # the flat configuration without what changes no result
    identity: str  # protocol: rows of another one are another question
    rows: list[Row] = field(default_factory=list)
    ranked: str = ""  # the size at which it is ranked, where that is not the reference

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
        if metric.exact:
            return format_exact(cell.value)
        if cell.runs == 1:
            low, high = (cell.low, cell.high) if interval else (math.nan, math.nan)
            text = format_interval(cell.value, low, high, metric.percent)
        else:
            text = format_deviation(cell.value, cell.high - cell.value, metric.percent)
        return text if cell.runs == len(self.subjects) else f"{text} (n={cell.runs})"


def label_lines(subjects: list[Subject]) -> list[tuple[str, list[Subject]]]:
    """Runs with equal settings are seeds of one line. Lines of one encoding are told apart by what differs."""
    lines: dict[str, list[Subject]] = defaultdict(list)
    for subject in subjects:
        lines[json.dumps([subject.pos, subject.settings], sort_keys=True)].append(subject)
    labelled = []
    for each in lines.values():
        first = each[0]
        same_word = [other[0].settings for other in lines.values() if other[0].pos == first.pos]
        extra = "".join(f" {name}={first.settings.get(name)}" for name in differing(same_word))
        labelled.append((first.pos + extra, sorted(each, key=lambda subject: (subject.seed, subject.run))))
    return labelled


def make_cell(subjects: list[Subject], size: str, metric: str) -> Cell:
    rows = [row for subject in subjects for row in subject.rows if row["size"] == size]
    numbers = [row for row in rows if row["metric"] == metric and row["status"] == "ok"]
    if not numbers:
        reasons = [row["status"] for row in rows if row["metric"] in (metric, "")]
        return Cell(status=reasons[0] if reasons else "")
    if len(numbers) == 1:
        value, low, high = (float(numbers[0][column]) for column in ("value", "ci_low", "ci_high"))
        return Cell(value, low, high, 1)
    mean, deviation = mean_and_deviation([float(row["value"]) for row in numbers])
    return Cell(mean, mean - deviation, mean + deviation, len(numbers))
