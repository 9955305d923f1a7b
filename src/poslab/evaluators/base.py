"""What an evaluator is: one question asked of a trained model, at every size that is of interest."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .memory import is_out_of_memory

Size = tuple[int, ...]  # (tokens,) of a text, (rows, columns) of an image in pixels


@dataclass(frozen=True)
class Metric:
    """How a number is called, printed and ordered."""

    label: str
    higher_is_better: bool
    percent: bool = False
    exact: bool = False  # the same whenever it is counted: without an interval


@dataclass(frozen=True)
class Measurement:
    """What one size gave, sample by sample, so that a mean and its interval come from the same numbers.

    Args:
        totals: for each metric the sum over each sample, (N,) float64.
        weights: what the sums are over, (N,): 1 an image, the number of scored tokens a window.
        clusters: (N,) samples with the same number are not independent: windows of one document.
        own_weights: for metrics that divide by something else than `weights`, (N,).
        undefined: metrics that have no value here although others have, and why.

    A metric is sum(totals) / sum(weights), never a mean of means. The parts of a profile, such as the
    loss by position, are metrics called `loss@4-7`.
    """

    totals: dict[str, np.ndarray]
    weights: np.ndarray
    clusters: np.ndarray
    own_weights: dict[str, np.ndarray] = field(default_factory=dict)
    undefined: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.weights)

    def weight(self, metric: str) -> np.ndarray:
        return self.own_weights.get(metric, self.weights)

    def value(self, metric: str) -> float:
        return float(self.totals[metric].sum() / self.weight(metric).sum())


@dataclass(frozen=True)
class Part:
    """The samples that one of `world` processes measures: every `world`-th from `rank` on."""

    rank: int = 0
    world: int = 1

    def of(self, samples: int) -> Tensor:
        return torch.arange(self.rank, samples, self.world)


WHOLE = Part()


def merge(parts: Sequence[Measurement]) -> Measurement:
    """The measurement of all samples, in their order, from those of the parts 0, 1, ... of it."""
    if len(parts) == 1:
        return parts[0]

    def whole(column: Callable[[Measurement], np.ndarray]) -> np.ndarray:
        columns = [column(part) for part in parts]
        joined = np.empty(sum(map(len, columns)), columns[0].dtype)
        for rank, each in enumerate(columns):
            joined[rank :: len(parts)] = each
        return joined

    return Measurement(
        {name: whole(lambda part, name=name: part.totals[name]) for name in parts[0].totals},  # type: ignore[misc]
        whole(lambda part: part.weights),
        whole(lambda part: part.clusters),
        {name: whole(lambda part, name=name: part.own_weights[name]) for name in parts[0].own_weights},  # type: ignore[misc]
        parts[0].undefined,
    )


class Evaluator(ABC):
    """One question. A subclass says whom it suits, which sizes, what decides the numbers, and how one size is measured.

    Args:
        sizes: sizes as words, `28`, `28x56`, `[28, 56]`; None takes `ratios`.
        ratios: factors of the trained size along each axis. The trained size is always included.
        batch_size: samples of the trained size at once; larger sizes take fewer, so memory stays level,
            and a batch that does not fit is halved until it does.

    Raises ValueError for sizes that cannot be read.
    """

    name: str  # word in results.csv, and its file in configs/evaluate
    question: str  # heading of a report
    axis: str  # what a size is, for the x axis of a figure
    logarithmic: bool  # x axis in powers of two
    metrics: Mapping[str, Metric]  # the first one that was measured sorts the table and is drawn
    mark = "trained size"  # what the reference size is called
    least = 1  # along each axis of a size
    by_metric = False  # its table has a column a metric, at the reference size, and not a column a size
    profiles: Mapping[str, str] = {}  # metric -> what the parts behind its @ are: "layer"
    chances: Mapping[str, str] = {}  # metric -> the measured number that says what guessing gives: a dashed line
    compared = True  # its samples are what a difference from the baseline is made of
    reads_history = False  # takes `history`, the metrics.csv of the run
    reads_device = False  # takes `device`, where the model will be
    divisible = True  # several processes may share the samples of a size

    def __init__(self, sizes: Any = None, ratios: Sequence[float] = (), batch_size: int = 250) -> None:
        if batch_size < 1:
            raise ValueError(f"evaluate.batch_size={batch_size} is not a number of samples: use 1 or more.")
        if any(ratio <= 0 for ratio in ratios or ()):
            raise ValueError(f"evaluate.{self.name}.ratios={list(ratios)}: a ratio is a positive number.")
        self.asked, self.ratios, self.batch_size = sizes, tuple(ratios or ()), batch_size

    def check_counts(self, **counts: int | None) -> None:
        """ValueError about an option that counts something and is less than 1."""
        for name, value in counts.items():
            if value is not None and value < 1:
                raise ValueError(f"evaluate.{self.name}.{name}={value} counts something: use 1 or more.")

    @abstractmethod
    def suits(self, data: Any) -> bool:
        """Whether the question makes sense for a model of this data."""

    def trained(self, data: Any) -> Size:
        """The size that training saw."""
        return tuple(data.size) if data.kind == "image" else (data.context,)

    def reference(self, data: Any) -> Size:
        """The size that all others are compared with, always measured and marked."""
        return self.trained(data)

    def ranked(self, data: Any, sizes: Sequence[Size]) -> Size:
        """The one of `sizes` at which encodings are ranked."""
        return self.reference(data)

    def ratio(self, data: Any, size: Size) -> float:
        """A size in units of the trained one."""
        return size_ratio(size, self.trained(data))

    @abstractmethod
    def protocol(self, data: Any) -> str:
        """Everything that decides the numbers except the model and the size, in one line."""

    @abstractmethod
    def clusters(self, data: Any) -> str:
        """What a bootstrap resamples, in a word."""

    @abstractmethod
    def measure(self, model: nn.Module, data: Any, size: Size, part: Part = WHOLE) -> Measurement:
        """The model at one size, in evaluation mode, on the device it is on. NotDefined where there is no answer."""

    def sizes(self, data: Any, step: Size | None = None) -> list[Size]:
        """Sizes to measure, from small to large; ratios are rounded to multiples of `step` (a patch)."""
        reference = self.reference(data)
        if self.asked is not None:
            words = [self.asked] if isinstance(self.asked, (int, str)) else list(self.asked)
            chosen = {self.read_size(word, len(reference)) for word in words}
        else:
            step = step or (1,) * len(reference)
            chosen = {
                tuple(max(1, round(side * ratio / unit)) * unit for side, unit in zip(reference, step, strict=True))
                for ratio in self.ratios
            }
        return sorted(chosen | {reference}, key=lambda size: (math.prod(size), size))

    def read_size(self, word: Any, axes: int) -> Size:
        """A size from a word; one number stands for a square. ValueError where it is none."""
        try:
            size = parse_size(word)
        except ValueError:
            size = ()
        if len(size) == 1 < axes:
            size = size * axes
        if len(size) != axes or min(size) < self.least:
            example = "[64,128,256]" if axes == 1 else "[20,28,28x56]"
            raise ValueError(f"evaluate.{self.name}.sizes: {word} is no size: write them as {example}.")
        return size

    def batch(self, size: Size, trained: Size) -> int:
        """Samples of this size that fill the memory of `batch_size` samples of the trained size."""
        return min(self.batch_size, max(1, self.batch_size * math.prod(trained) // math.prod(size)))

    def read(self, index: Tensor, batch: int, answers: Callable[[Tensor], dict[str, Tensor]]) -> dict[str, np.ndarray]:
        """`answers` (B,) of all samples in `index` (N,), `batch` of them at once or as many as fit, as float64 (N,)."""
        if not len(index):  # a process with nothing to do still says which numbers there are
            return {name: column[:0] for name, column in self.read(torch.tensor([0]), 1, answers).items()}
        found: list[dict[str, np.ndarray]] = []
        first = 0
        while first < len(index):
            try:
                columns = answers(index[first : first + batch])
                found.append({name: column.double().cpu().numpy() for name, column in columns.items()})
            except Exception as error:
                if batch == 1 or not is_out_of_memory(error):
                    raise
            else:
                first += batch
                continue
            # outside of the handler, which keeps the tensors of every frame that the error went through
            batch = (min(batch, len(index) - first) + 1) // 2
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


class Evaluation:
    """`with Evaluation(model) as device:` evaluation mode without gradients, and back to what it was."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.was_training = model, model.training
        self.no_grad = torch.no_grad()

    def __enter__(self) -> torch.device:
        self.no_grad.__enter__()
        self.model.eval()
        return next(self.model.parameters()).device

    def __exit__(self, *error: Any) -> None:
        self.model.train(self.was_training)
        self.no_grad.__exit__(*error)


def parse_size(word: Any) -> Size:
    """`28` -> (28,), `28x56` -> (28, 56), a list of numbers -> itself. ValueError for anything else."""
    parts = list(word) if isinstance(word, (list, tuple)) else str(word).lower().split("x")
    if not parts or not all(re.fullmatch(r"\d+", str(part).strip()) for part in parts):
        raise ValueError(f"{word} is no size: write 28 or 28x56.")
    return tuple(int(part) for part in parts)


def size_word(size: Size) -> str:
    """(64,) -> 64, (28, 28) -> 28, (28, 56) -> 28x56."""
    return str(size[0]) if len(set(size)) == 1 else "x".join(map(str, size))


def size_ratio(size: Size, trained: Size) -> float:
    """How much larger than in training, along one axis: of an image the root of the ratio of the areas."""
    return (math.prod(size) / math.prod(trained)) ** (1 / len(size))
