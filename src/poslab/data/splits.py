"""Which samples train and which are held out: a function of their order, name or content, never of chance."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import numpy as np


def stratified(labels: np.ndarray, counts: tuple[int, ...]) -> list[np.ndarray]:
    """Disjoint index sets of the given sizes, each class spread evenly, the same at every call.

    Takes the samples of each class in their stored order, so nothing random decides; the first set
    takes the last ones of each class. ValueError where the counts ask for more than there is.
    """
    if sum(counts) > len(labels):
        raise ValueError(f"Splits of {counts} need {sum(counts)} samples, there are {len(labels)}.")
    # rank within the class as a fraction: cutting a list sorted by it cuts every class alike
    order = np.empty(len(labels))
    for label in np.unique(labels):
        of_class = np.flatnonzero(labels == label)
        order[of_class] = (np.arange(len(of_class)) + 0.5) / len(of_class)
    by_rank = np.lexsort((labels, order))[::-1]
    cuts = np.cumsum((0, *counts))
    return [np.sort(by_rank[a:b]) for a, b in pairwise(cuts)]


def held_out(labels: np.ndarray, validate: int | None, limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Indices that train and indices that validate, of an official training set of `labels` (N,).

    The last `validate` samples (None: a twentieth), counted within each class, validate, and all others
    train, or the `limit` before them: the samples of a small study are among those of a larger one.
    ValueError where there are fewer.
    """
    held = max(1, len(labels) // 20) if validate is None else validate
    rest = len(labels) - held
    if rest < 1:
        raise ValueError(f"There are {len(labels):,} images to train: {held:,} of them to validate leaves none.")
    if limit is not None and limit > rest:
        raise ValueError(
            f"data.limit={limit}: there are {rest:,} images to train, choose at most that, or null for all."
        )
    val, train = stratified(labels, (held, rest if limit is None else limit))
    return train, val


def check_labels(labels: np.ndarray, classes: int, source: str) -> None:
    """ValueError where a label is not one of 0 ... classes - 1."""
    if wrong := sorted(set(np.unique(labels).tolist()) - set(range(classes))):
        raise ValueError(
            f"{source} has labels such as {wrong[0]}, and there are {classes} classes: 0 ... {classes - 1}."
        )


def place(name: bytes) -> float:
    """In [0, 1), from a name or a content alone: what is below a share of it belongs to that split, everywhere."""
    return int.from_bytes(sha256(name).digest()[:4], "big") / 2**32


def split_of(name: bytes, held_out: float = 0.05) -> str:
    """Train, val or test: the last two have a share of `held_out` each."""
    at = place(name)
    return "train" if at < 1 - 2 * held_out else "val" if at < 1 - held_out else "test"
