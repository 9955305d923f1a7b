"""Where a training begins: at nothing, at another run's weights, or where it was stopped."""

from __future__ import annotations

import logging
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import nn

from ..errors import UsageError
from ..positions import PositionEncoding
from ..run import Run, load_run
from . import run_directory
from .checkpoints import NEWEST_FIRST
from .identity import FREE, unfinished
from .parts import read_header
from .plan import settle_length

log = logging.getLogger("poslab")


@dataclass(frozen=True)
class Start:
    """A configuration and how much of it is done."""

    config: dict[str, Any]
    directory: Path | None = None
    checkpoint: Path | None = None
    step: int = 0
    data_hash: str | None = None
    notes: tuple[str, ...] = ()  # what a person should know about it


def begin(config: dict[str, Any]) -> Start:
    """Where `config["resume"]` says that the training begins.

    A directory: the run in it, with its own configuration, from its last checkpoint. UsageError where it is
    finished or never saved, or where a word on the command line would change it. auto: the newest unfinished run
    of this configuration in `config["runs"]`, even if it never saved, or a new one. null: a new one.
    """
    if not config["resume"]:
        return Start(settle_length(config))
    typed = [word.partition("=")[0].lstrip("+") for word in config["overrides"]]
    if config["resume"] == "auto":
        config = settle_length(config)
        directory = run_directory.agreed(lambda: getattr(unfinished(config), "directory", None))
        if directory is None:
            return Start(config, notes=(f"resume=auto: {config['runs']} has no unfinished run like this, it is new",))
        return going_on(load_run(directory), config, [key for key in typed if is_free(key)], saved=False)
    run = load_run(config["resume"])
    if run.summary["status"] == "complete":
        raise UsageError(f"{run.directory} is finished: evaluate it with python eval.py runs={run.directory}")
    if words := [word for word, key in zip(config["overrides"], typed) if not is_free(key)]:
        raise UsageError(f"resume= goes on with the run's own configuration: leave out {' '.join(words)}.")
    return going_on(run, config, typed)


def is_free(key: str) -> bool:
    return key.split(".")[0] in FREE


def going_on(run: Run, config: dict[str, Any], typed: list[str], saved: bool = True) -> Start:
    """A run from its newest checkpoint, under its own configuration and the `typed` keys of another.

    UsageError where no checkpoint can be read; a run that need not have `saved` one starts over in its directory.
    """
    same = [key for key in FREE if run.config["choices"].get(key) == config["choices"].get(key)]
    merged = deepcopy(run.config) | {key: config[key] for key in ("overrides", "multirun")}
    merged |= {key: completed(run.config.get(key, config[key]), config[key]) for key in same if key in config}
    for key in typed:
        node, value = merged, config
        *way, last = key.split(".")
        for name in way:
            node, value = node.setdefault(name, {}), value[name]
        node[last] = value[last]  # a whole group where one was chosen, hardware=cpu
    merged["choices"] |= {key: config["choices"][key] for key in typed if key in config["choices"]}
    if (merged["hardware"]["strategy"] == "fsdp") != (run.config["hardware"]["strategy"] == "fsdp"):
        raise UsageError("resume= cannot change to or from hardware=fsdp, whose optimiser state is kept otherwise.")
    begun = Start(merged, run.directory.absolute(), data_hash=run.summary.get("data_hash"))
    paths = [path for path in (run.directory / "checkpoints" / name for name in NEWEST_FIRST) if path.exists()]
    step: int | None = None
    notes: list[str] = []
    for path in paths:
        try:
            step = read_header(path)["global_step"]
            break
        except (RuntimeError, OSError, EOFError, KeyError, UnpicklingError) as error:
            notes.append(f"{path} cannot be read ({type(error).__name__})")
    if step is None and not saved:
        return replace(begun, notes=tuple(f"{note}: starting over" for note in notes))
    if step is None:
        why = f"its checkpoints cannot be read: {'; '.join(notes)}" if notes else "it stopped before it saved one"
        raise UsageError(f"{run.directory} has no checkpoint to go on from, {why}. Train it anew, without resume=.")
    notes = [f"{note}: going on from {path.name}, step {step:,}" for note in notes]
    return replace(begun, checkpoint=path, step=step, notes=tuple(notes))


def completed(old: Any, new: Any) -> Any:
    """`old`, and the keys of `new` that it lacks: those that poslab did not have when `old` was written."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return deepcopy(old)
    return deepcopy(new | old) | {key: completed(old[key], new[key]) for key in old.keys() & new.keys()}


def from_run(model: nn.Module, directory: str) -> None:
    """Give `model` the last weights of another run, whose sizes may differ.

    An encoding adapts what it learned to its own extent (`adopt`); a head for other classes starts afresh.
    UsageError where any other parameter has another shape.
    """
    run = load_run(directory)
    source = run.load_model("last")
    ours, theirs = dict(model.named_parameters()), dict(source.named_parameters())
    encodings = zip(_encodings(model), _encodings(source), strict=False)
    if [type(module) for module in _encodings(model)] != [type(module) for module in _encodings(source)]:
        raise UsageError(f"init_from={directory} was trained with pos={run.choices['pos']}: choose the same encoding.")
    with torch.no_grad():
        for name, parameter in ours.items():
            if ".position." in name:
                continue
            if name in theirs and theirs[name].shape == parameter.shape:
                parameter.copy_(theirs[name])
            elif name.startswith("head."):
                log.info(f"init_from: {name} has another shape and starts afresh")
            else:
                raise UsageError(
                    f"init_from={directory} does not fit: {name} is {tuple(parameter.shape)} here and "
                    f"{tuple(theirs[name].shape) if name in theirs else 'missing'} there. Choose the same model sizes."
                )
        try:
            for mine, other in encodings:
                mine.adopt(other)
        except (RuntimeError, ValueError) as error:
            raise UsageError(
                f"init_from={directory}: the encoding does not fit, choose its keys alike: {error}"
            ) from error


def _encodings(model: nn.Module) -> list[PositionEncoding]:
    return list(model.trunk.position)  # type: ignore[union-attr, arg-type]
