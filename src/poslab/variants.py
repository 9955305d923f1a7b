"""Trained weights read in other ways: with another scaling of their frequencies, another resample of their table."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .errors import UsageError
from .run import Run

RULES = Path(__file__).resolve().parents[2] / "configs" / "pos" / "scaling"


def variants_of(run: Run, asked: Mapping[str, Sequence[Any] | None]) -> Iterator[tuple[str, Run]]:
    """A name and the run with the changed configuration, for each combination of the values asked for.

    Only keys that the run's encoding has count; the combination that it was trained with has the name "".
    """
    nodes = list(encodings(run.config["pos"]))
    keys = [key for key, values in asked.items() if values and any(key in node for node in nodes)]
    seen = set()
    for values in itertools.product(*(asked[key] or () for key in keys)):
        config = copy.deepcopy(run.config)
        changed = []
        for key, value in zip(keys, values, strict=True):
            before = copy.deepcopy(config["pos"])
            for node in encodings(config["pos"]):
                if key in node:
                    node[key] = rule(value) if key == "scaling" else value
            if config["pos"] != before:
                changed.append(f"{key}={str(value).lower() if isinstance(value, bool) else value}")
        name = " ".join(changed)
        if name not in seen:
            seen.add(name)
            yield name, run.with_config(config)


def encodings(node: Any) -> Iterator[dict[str, Any]]:
    """The node of an encoding and, where it is a composition, of all of its parts."""
    if isinstance(node, dict):
        yield node
        for part in node.get("parts", {}).values():
            yield from encodings(part)


def rule(word: str) -> dict[str, Any] | None:
    """The keys of a scaling rule with its defaults; None for `none`. UsageError where there is no such word."""
    words = sorted(path.stem for path in RULES.glob("*.yaml"))
    if word not in words:
        choices = ", ".join(words)
        raise UsageError(f"variants.scaling: there is no '{word}' in configs/pos/scaling; choose from {choices}.")
    found = yaml.safe_load((RULES / f"{word}.yaml").read_text())
    for key, value in (found or {}).items():
        if value == "???":
            raise UsageError(
                f"variants.scaling: {word} has no default for {key}, which belongs to one trained model: "
                f"train with pos/scaling={word} pos.scaling.{key}=[...] instead."
            )
    return found
