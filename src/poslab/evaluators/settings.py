"""The configuration of a run as far as it decides what the run learned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# what may differ between two runs of one group without being an experiment of its own
IGNORED = (
    "choices", "overrides", "seed", "runs", "reports", "resume", "sweep", "compile", "epochs", "steps", "experiment",
    "logger", "evaluate", "validate_every", "evaluate_every", "workers", "device_batch_size", "hardware.accelerator",
    "hardware.devices", "hardware.num_nodes", "hardware.strategy", "hardware.deterministic",
)  # fmt: skip


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


def differing(settings: Sequence[Mapping[str, str]], among: Iterable[str] = ()) -> list[str]:
    """Keys whose values differ, those that start with a word of `among` only where it is given."""
    words = tuple(among)
    keys = sorted({name for each in settings for name in each if not words or name.split(".")[0] in words})
    return [name for name in keys if len({each.get(name) for each in settings}) > 1]
