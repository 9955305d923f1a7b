"""Which two configurations learn the same, and the unfinished run of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..evaluators.settings import leaves, text_of
from ..lock import is_held
from ..run import Run

# what may differ between a run and its continuation: none of it changes what is learned
FREE = (
    "resume", "sweep", "hardware", "evaluate", "logger", "runs", "reports", "workers", "compile", "device_batch_size",
    "trust",
)  # fmt: skip
NO_SETTING = ("choices", "overrides", "multirun", "debug")
LOCK = ".lock"  # held by the process that trains in a run directory


def identity(config: Mapping[str, Any]) -> dict[str, str]:
    """What decides a result: dotted key -> value as text, and the words for model, pos and data.

    `config` is the configuration of a run, or one that says how long to train as a run's does
    (`settle_length`).
    """
    words = {group: config["choices"][group] for group in ("model", "pos", "data")}
    kept = {path: text_of(same_numbers(value)) for path, value in leaves(config, (*FREE, *NO_SETTING))}
    return words | kept | {"hardware.precision": text_of(config["hardware"]["precision"])}


def same_numbers(value: Any) -> Any:
    """10000.0 as 10000: a file may say the one and a command line the other."""
    if isinstance(value, list):
        return [same_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def runs_in(folder: Path) -> list[Run]:
    """The runs in a folder, the newest first."""
    found = [Run(path.parent) for path in folder.glob("*/config.yaml")]
    return sorted(found, key=lambda run: (run.directory / "config.yaml").stat().st_mtime_ns, reverse=True)


def unfinished(config: Mapping[str, Any]) -> Run | None:
    """The newest run in `config["runs"]` that would learn the same, is not complete, and that nobody trains now."""
    wanted = identity(config)
    for run in runs_in(Path(config["runs"])):
        if run.summary["status"] != "complete" and not is_held(run.directory / LOCK) and identity(run.config) == wanted:
            return run
    return None
