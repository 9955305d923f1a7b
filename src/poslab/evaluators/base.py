"""What an evaluator is: one question asked of a trained model, at every size that is of interest."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

Size = tuple[int, ...]  # (tokens,) of a text, (rows, columns) of an image in pixels


@dataclass(frozen=True)
class Metric:
    """How a number is called, printed and ordered."""

    label: str
    higher_is_better: bool
    percent: bool = False


@dataclass(frozen=True)
class Measurement:
    """What one size gave, sample by sample, so that a mean and its interval come from the same numbers.

    Args:
        totals: for each metric the sum over each sample, (N,) float64.
        weights: what the sums are over, (N,): 1 an image, the number of scored tokens a window.
        clusters: (N,) samples with the same number are not independent: windows of one document.

    A metric is sum(totals) / sum(weights), never a mean of means.
    """

    totals: dict[str, np.ndarray]
    weights: np.ndarray
    clusters: np.ndarray

    def __len__(self) -> int:
        return len(self.weights)

    def value(self, metric: str) -> float:
        return float(self.totals[metric].sum() / self.weights.sum())


class Evaluator(ABC):
    """One question. A subclass says which sizes, what decides the numbers, and how one size is measured.

    Args:
        sizes: sizes as words, `28`, `28x56`, `[28, 56]`; None takes `ratios`.
        ratios: factors of the trained size along each axis. The trained size is always included.
        batch_size: samples of the trained size at once; larger sizes take fewer, so memory stays level.

    Raises ValueError for sizes that cannot be read.
    """

    name: str  # word in results.csv, and the key of its options in configs/evaluate
    question: str  # heading of a report
    axis: str  # what a size is, for the x axis of a figure
    logarithmic: bool  # x axis in powers of two
    metrics: dict[str, Metric]  # the first one that was measured sorts the table and is drawn

    def __init__(self, sizes: Any = None, ratios: Sequence[float] = (), batch_size: int = 250) -> None:
        if batch_size < 1:
            raise ValueError(f"evaluate.batch_size={batch_size} is not a number of samples: use 1 or more.")
        if any(ratio <= 0 for ratio in ratios or ()):
            raise ValueError(f"evaluate.{self.name}.ratios={list(ratios)}: a ratio is a positive number.")
        self.asked, self.ratios, self.batch_size = sizes, tuple(ratios or ()), batch_size

    @abstractmethod
    def trained(self, data: Any) -> Size:
        """The size that training saw."""

    @abstractmethod
    def protocol(self, data: Any) -> str:
        """Everything that decides the numbers except the model and the size, in one line."""

    @abstractmethod
    def clusters(self, data: Any) -> str:
        """What a bootstrap resamples, in a word."""

    @abstractmethod
    def measure(self, model: nn.Module, data: Any, size: Size) -> Measurement:
        """The model at one size, in evaluation mode, on the device it is on. NotDefined where there is no answer."""

    def sizes(self, data: Any, step: Size | None = None) -> list[Size]:
        """Sizes to measure, from small to large; ratios are rounded to multiples of `step` (a patch)."""
        trained = self.trained(data)
        if self.asked is not None:
            words = [self.asked] if isinstance(self.asked, (int, str)) else list(self.asked)
            chosen = {self.read_size(word, len(trained)) for word in words}
        else:
            step = step or (1,) * len(trained)
            chosen = {
                tuple(max(1, round(side * ratio / unit)) * unit for side, unit in zip(trained, step, strict=True))
                for ratio in self.ratios
            }
        return sorted(chosen | {trained}, key=lambda size: (math.prod(size), size))

    def read_size(self, word: Any, axes: int) -> Size:
        """A size from a word; one number stands for a square. ValueError where it is none."""
        try:
            size = parse_size(word)
        except ValueError:
            size = ()
        if len(size) == 1 < axes:
            size = size * axes
        if len(size) != axes or min(size) < 1:
            example = "[64,128,256]" if axes == 1 else "[20,28,28x56]"
            raise ValueError(f"evaluate.{self.name}.sizes: {word} is no size: write them as {example}.")
        return size

    def batch(self, size: Size, trained: Size) -> int:
        """Samples of this size that fill the memory of `batch_size` samples of the trained size."""
        return min(self.batch_size, max(1, self.batch_size * math.prod(trained) // math.prod(size)))


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
