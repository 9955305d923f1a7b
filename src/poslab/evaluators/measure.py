"""Ask one trained model one question at many sizes. Whatever fails is a row, and the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ..positions import NotDefined
from ..results_file import Key, Results, Row, key
from .base import WHOLE, Evaluator, Measurement, Size, size_word
from .memory import is_out_of_memory
from .processes import Processes
from .samples import Samples
from .statistics import bootstrap_interval, unanimous_interval
from .table import Bar


@dataclass(frozen=True)
class Job:
    """One model and what is asked of it.

    Args:
        load: gives the model on its device; called once, and only if something is missing.
        common: the columns of results.csv that all of its rows share.
    """

    evaluator: Evaluator
    data: Any
    load: Callable[[], nn.Module]
    sizes: list[Size]
    common: Row
    resamples: int = 2000
    confidence: float = 0.95

    def row(self, size: Size, **columns: str) -> Row:
        ratio = self.evaluator.ratio(self.data, size)
        empty = dict.fromkeys(("metric", "value", "ci_low", "ci_high", "n"), "")
        return self.common | {"size": size_word(size), "ratio": f"{ratio:.6g}"} | empty | columns

    def missing(self, final: set[Key], numbers: set[Key], samples: Samples) -> list[Size]:
        """Sizes whose rows are not there yet, as `Results.final` says, or whose samples a difference would miss."""
        done = final - {each for each in numbers if self.evaluator.compared and each not in samples}
        return [size for size in self.sizes if key(self.row(size)) not in done]

    def run(self, sizes: Sequence[Size], results: Results, samples: Samples, bar: Bar, processes: Processes) -> None:
        """Measure at `sizes`; every size is in the file before the next one starts."""
        name = f"{self.common['run']} {self.common['variant']}".strip()
        began, model = time.monotonic(), None
        for size in sizes:
            bar.show(f"{name}: {self.evaluator.name} at {size_word(size)}")
            answer: Measurement | str | None
            try:
                model = model or self.load()
                answer = self.measure(model, size, processes)
            except Exception as error:
                answer = status_of(error)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            whole = processes.combine(answer)
            if processes.main:
                if isinstance(whole, Measurement) and self.evaluator.compared:
                    samples.save(key(self.row(size)), whole)
                results.add([self.row(size, status=whole)] if isinstance(whole, str) else self.rows(size, whole))
            bar.advance()
        said = f"{name}, {self.evaluator.name}"
        seconds = time.monotonic() - began
        bar.finished(f"{said}: {len(sizes)} sizes in {seconds:.1f} s" if sizes else f"{said}: nothing new to measure")

    def measure(self, model: nn.Module, size: Size, processes: Processes) -> Measurement | None:
        """This process's part; None where the main process measures alone."""
        if self.evaluator.divisible:
            return self.evaluator.measure(model, self.data, size, processes.part)
        return self.evaluator.measure(model, self.data, size, WHOLE) if processes.main else None

    def rows(self, size: Size, measured: Measurement) -> list[Row]:
        """A row a metric."""
        numbers = [self.number(size, measured, metric) for metric in measured.totals]
        without = measured.undefined.items()
        return numbers + [self.row(size, metric=name, status=f"not defined: {why}") for name, why in without]

    def number(self, size: Size, measured: Measurement, metric: str) -> Row:
        kind = self.evaluator.metrics.get(metric)
        sums = measured.totals[metric], measured.weight(metric), measured.clusters
        resamples = 0 if kind and kind.exact else self.resamples
        low, high = bootstrap_interval(*sums, resamples, self.confidence)
        if kind and kind.percent and low == high and measured.value(metric) in (0, 1):
            low, high = unanimous_interval(measured.value(metric), len(np.unique(measured.clusters)), self.confidence)
        numbers = {"value": repr(measured.value(metric)), "ci_low": repr(low), "ci_high": repr(high)}
        return self.row(size, metric=metric, n=str(len(measured)), status="ok", **numbers)


def status_of(error: Exception) -> str:
    """What results.csv says about an error."""
    if isinstance(error, NotDefined):
        return f"not defined: {one_line(error)}"
    return "out of memory" if is_out_of_memory(error) else f"failed: {one_line(error)}"


def one_line(error: Exception) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 300 else f"{words[:297]}..."
