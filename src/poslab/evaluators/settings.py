"""The configuration of a run as far as it decides what the run learned."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

# what may differ between two runs of one group without being an experiment of its own
IGNORED = (
    "choices", "overrides", "seed", "runs", "reports", "resume", "sweep", "compile", "epochs", "steps", "experiment",
    "logger", "evaluate", "validate_every", "evaluate_every", "workers", "device_batch_size", "hardware.accelerator",
    "hardware.devices", "hardware.num_nodes", "hardware.strategy", "hardware.deterministic",
)  # fmt: skip


def leaves(config: Mapping[str, Any], leave_out: Container[str] = (), prefix: str = "") -> Iterator[tuple[str, Any]]:
    """{"model": {"dim": 64}} -> ("model.dim", 64), without the dotted keys in `leave_out` and what is below them."""
    for name, value in config.items():
        path = f"{prefix}{name}"
        if path in leave_out:
            continue
        if isinstance(value, Mapping):
            yield from leaves(value, leave_out, f"{path}.")
        else:
            yield path, value


def text_of(value: Any) -> str:
    """A value that can be compared and printed."""
    return value if isinstance(value, str) else json.dumps(value)


def flatten(config: Mapping[str, Any]) -> dict[str, str]:
    """{"model": {"dim": 64}} -> {"model.dim": "64"}, without what changes no result."""
    return {path: text_of(value) for path, value in leaves(config, IGNORED)}


def differing(settings: Sequence[Mapping[str, str]], among: Iterable[str] = ()) -> list[str]:
    """Keys whose values differ, those that start with a word of `among` only where it is given."""
    words = tuple(among)
    keys = sorted({name for each in settings for name in each if not words or name.split(".")[0] in words})
    return [name for name in keys if len({each.get(name) for each in settings}) > 1]
