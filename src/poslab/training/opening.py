"""What is about to be trained: a table on a terminal, the lines of a log anywhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from ..data.order import Training
from ..evaluators.base import size_word
from ..files import shown
from .identity import same_numbers

__all__ = ["Opening"]


@dataclass(frozen=True)
class Opening:
    """The facts of a training that begins; `device` and `precision` as they were settled, not as they were asked."""

    config: Mapping[str, Any]
    data: Any
    training: Training
    parameters: int
    position_parameters: int
    device: str
    precision: str
    directory: Path

    @cached_property
    def _hash(self) -> str:
        return self.data.fingerprint()  # reads all of it

    def lines(self) -> list[str]:
        """For train.log, and for a terminal that is none."""
        words, training = self.config["choices"], self.training
        unit = "images" if self.data.kind == "image" else "sequences"
        learned = f"{self.parameters:,} parameters, {self.position_parameters:,} of them positions"
        length = f"{training.steps:,} steps of {training.step} samples{self._going_on()}"
        return [
            f"{words['model']} with pos={words['pos']}: {learned}",
            f"{type(self.data).__name__}: {counts(self.data)} {unit}, hash {self._hash}",
            f"{length}; run directory {shown(self.directory)}",
        ]

    def table(self) -> Table:
        """As wide as a terminal leaves it: long values wrap inside."""
        table = Table(box=box.HORIZONTALS, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")  # a path is never cut
        for name, value in self._rows():
            table.add_row(name, Text(value))  # a list in brackets is no markup
        return table

    def _rows(self) -> Iterator[tuple[str, str]]:
        words, optim = self.config["choices"], self.config["optim"]
        yield "model", f"{words['model']}  {keys(self.config['model'], idle=False)}"
        yield "position", position(words["pos"], self.config["pos"])
        yield "data", f"{words['data']}  {sizes(self.data)}, hash {self._hash}"
        if self.config["init_from"]:
            yield "weights", f"from {self.config['init_from']}"
        yield "budget", self._budget()
        schedule = ("warmup", "final")
        others = {name: value for name, value in optim.items() if name not in schedule}
        yield "optimizer", f"AdamW  {keys(others, idle=False)}"
        rising = max(1, round(optim["warmup"] * self.training.steps))
        low = optim["lr"] * optim["final"]
        yield "schedule", f"{counted(rising, 'step')} up to lr, then half a cosine down to {plain(float(f'{low:.3g}'))}"
        yield "device", self._device()
        yield "parameters", f"{self.parameters:,}, {self.position_parameters:,} of them positions"
        yield "run", str(shown(self.directory))

    def _budget(self) -> str:
        training, every = self.training, self.config["validate_every"] or self.training.steps_per_epoch
        epochs = f"{training.steps / training.steps_per_epoch:.3g} epochs of {len(self.data.train):,} samples"
        validated = "at the end" if every >= training.steps else f"every {counted(every, 'step')}"
        text = f"{counted(training.steps, 'step')} of {training.step} samples{self._going_on()}: {epochs}"
        return f"{text}; validated {validated}; seed {self.config['seed']}"

    def _device(self) -> str:
        training = self.training
        text = f"{self.device}, {self.precision}"
        if training.world > 1:
            strategy = self.config["hardware"]["strategy"]
            text = f"{training.world} x {text}{'' if strategy == 'auto' else f', {strategy}'}"
        if training.micro < training.step:
            times = f"{training.accumulate} x " if training.accumulate > 1 else ""
            text += f"; {times}{training.micro} samples of a step on each"
        return f"{text}; compiled" if self.config["compile"] else text

    def _going_on(self) -> str:
        return f", going on after step {self.training.start:,}" if self.training.start else ""


def position(word: str, node: Mapping[str, Any]) -> str:
    """`rope theta=10000 ...`; the parts of a composition below it, one a line."""
    if "parts" not in node:
        return f"{word}  {keys(node)}".rstrip()
    below = "\n".join(position(name, part) for name, part in node["parts"].items())
    return f"{word}\n{below}"


def keys(node: Mapping[str, Any], idle: bool = True) -> str:
    """`dim=64 heads=2`, as a command line would set them; without those that are off (false, 0, null) if not `idle`."""
    ours = {name: value for name, value in node.items() if not name.startswith("_")}
    return " ".join(f"{name}={plain(value)}" for name, value in ours.items() if idle or value not in (False, None))


def plain(value: Any) -> str:
    """A value of a configuration; a node is named after its class."""
    if isinstance(value, Mapping):
        name = str(value.get("_target_", "")).rpartition(".")[2]
        return f"{name}({', '.join(keys(value).split(' '))})"
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        return f"[{','.join(map(plain, value))}]"
    return json.dumps(same_numbers(value))


def counts(data: Any) -> str:
    return ", ".join(f"{len(getattr(data, name)):,} {name}" for name in ("train", "val", "test"))


def sizes(data: Any) -> str:
    """`3,800 train, 200 val, 1,000 test images of 28x28 pixels, 10 classes`."""
    if data.kind == "image":
        side = size_word(tuple(data.size))
        pixels = side if "x" in side else f"{side}x{side}"
        return f"{counts(data)} images of {pixels} pixels, {data.classes} classes"
    return f"{counts(data)} sequences of {data.context} tokens, vocabulary {data.vocab:,}"


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
