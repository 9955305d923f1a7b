"""Where a training begins: at nothing, at another run's weights, or where it was stopped."""

from __future__ import annotations

import logging
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import UsageError
from ..positions import PositionEncoding
from ..run import load_run

log = logging.getLogger("poslab")

# what may differ from the run that is resumed: none of it changes what is learned
FREE = ("resume", "hardware", "evaluate", "logger", "runs", "reports", "workers", "compile", "device_batch_size")


@dataclass(frozen=True)
class Start:
    """A configuration and how much of it is done."""

    config: dict[str, Any]
    directory: Path | None = None
    checkpoint: Path | None = None
    step: int = 0
    data_hash: str | None = None


def resumed(config: dict[str, Any]) -> Start:
    """The run in `config["resume"]`, with its own configuration, from its last checkpoint.

    UsageError where it is finished or never saved, or where a word on the command line would change it.
    """
    run = load_run(config["resume"])
    if run.summary["status"] == "complete":
        raise UsageError(f"{run.directory} is finished: evaluate it with python eval.py runs={run.directory}")
    typed = {word: word.split("=")[0].lstrip("+") for word in config["overrides"]}
    if words := [word for word, key in typed.items() if key.split(".")[0] not in FREE]:
        raise UsageError(f"resume= goes on with the run's own configuration: leave out {' '.join(words)}.")
    going_on = deepcopy(run.config)
    for key in typed.values():
        node, value = going_on, config
        *way, last = key.split(".")
        for name in way:
            node, value = node.setdefault(name, {}), value[name]
        node[last] = value[last]  # a whole group where one was chosen, hardware=cpu
    going_on["choices"] |= {key: config["choices"][key] for key in typed.values() if key in config["choices"]}
    if (going_on["hardware"]["strategy"] == "fsdp") != (run.config["hardware"]["strategy"] == "fsdp"):
        raise UsageError("resume= cannot change to or from hardware=fsdp, whose optimiser state is kept otherwise.")
    path = run.checkpoint("last")
    step = torch.load(path, map_location="cpu", weights_only=True)["global_step"]
    return Start(going_on, run.directory.absolute(), path, step, run.summary.get("data_hash"))


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
