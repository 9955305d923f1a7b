"""Lines of papers, each with its source and setup, that a report can draw beside its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import yaml


@dataclass(frozen=True)
class Published:
    """What a paper measured, in its own setting: a shape to compare with, never a rank.

    Args:
        evaluator, metric: what of ours asks the same question.
        trained, sizes: in the paper's units; a line has a number a size, None where the paper gives none.
        like: its name of an encoding -> ours.
    """

    title: str
    source: str
    setup: str
    evaluator: str
    metric: str
    trained: int
    sizes: Sequence[int]
    like: Mapping[str, str]
    lines: Mapping[str, Sequence[float | None]]

    def suits(self, evaluator: str, metric: str) -> bool:
        return (evaluator, metric) == (self.evaluator, self.metric)


def load_published(word: str | None) -> Published | None:
    """The lines called so in published.yaml. ValueError with all words where there are none."""
    if word is None:
        return None
    known = yaml.safe_load(files(__package__).joinpath("published.yaml").read_text(encoding="utf-8"))
    if word not in known:
        raise ValueError(f"published={word} is not one of {', '.join(known)}.")
    return Published(**known[word])
