"""Ask one trained model one question at many sizes. Whatever fails is a row, and the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..positions import NotDefined
from .base import Evaluator, Measurement, Size, size_ratio, size_word
from .results import Key, Results, Row, key
from .statistics import bootstrap_interval
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
        ratio = size_ratio(size, self.evaluator.trained(self.data))
        empty = dict.fromkeys(("metric", "value", "ci_low", "ci_high", "n"), "")
        return self.common | {"size": size_word(size), "ratio": f"{ratio:.6g}"} | empty | columns

    def missing(self, done: set[Key]) -> list[Size]:
        """Sizes whose rows are not there yet."""
        return [size for size in self.sizes if key(self.row(size)) not in done]

    def run(self, sizes: Sequence[Size], results: Results, bar: Bar) -> None:
        """Measure at `sizes`; every size is in the file before the next one starts."""
        name, began = f"{self.common['run']} {self.common['variant']}".strip(), time.monotonic()
        model, broken = None, ""
        for size in sizes:
            bar.show(f"{name} at {size_word(size)}")
            if model is None and not broken:
                try:
                    model = self.load()
                except Exception as error:
                    broken = status_of(error)
            results.add([self.row(size, status=broken)] if model is None else self.measure(model, size))
            bar.advance()
        seconds = time.monotonic() - began
        bar.finished(f"{name}: {len(sizes)} sizes in {seconds:.1f} s" if sizes else f"{name}: nothing new to measure")

    def measure(self, model: nn.Module, size: Size) -> list[Row]:
        """A row a metric, or one row that says why there is none."""
        try:
            measured = self.evaluator.measure(model, self.data, size)
        except Exception as error:
            status = status_of(error)
            del error  # and with it the tensors of the frames that it went through
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            return [self.row(size, status=status)]
        return [self.number(size, measured, metric) for metric in measured.totals]

    def number(self, size: Size, measured: Measurement, metric: str) -> Row:
        sums = measured.totals[metric], measured.weights, measured.clusters
        low, high = bootstrap_interval(*sums, self.resamples, self.confidence)
        numbers = {"value": repr(measured.value(metric)), "ci_low": repr(low), "ci_high": repr(high)}
        return self.row(size, metric=metric, n=str(len(measured)), status="ok", **numbers)


def status_of(error: Exception) -> str:
    """What results.csv says about an error."""
    if isinstance(error, NotDefined):
        return f"not defined: {one_line(error)}"
    memory = ("out of memory", "can't allocate memory")  # CUDA and the CPU allocator
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(each in str(error) for each in memory):
        return "out of memory"
    return f"failed: {one_line(error)}"


def one_line(error: Exception) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 300 else f"{words[:297]}..."
