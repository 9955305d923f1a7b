"""What a value may be. A YAML's default says so itself, apart from the keys of the tables below."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A type as a person knows it, and a value for an example."""

    names: tuple[str, ...]
    accepts: Callable[[Any], bool]
    example: str
    many: str = ""

    def __or__(self, other: Kind) -> Kind:
        many = f"{self.many or self.name} or {other.many or other.name}"
        return Kind(self.names + other.names, lambda v: self.accepts(v) or other.accepts(v), self.example, many)

    @property
    def name(self) -> str:
        """Completes the sentence "'abc' is not ..."."""
        return " or ".join(filter(None, (", ".join(self.names[:-1]), self.names[-1])))


def one_of(*words: str) -> Kind:
    return Kind(words, lambda value: value in words, words[0])


def list_of(kind: Kind, length: int | None = None) -> Kind:
    """Lists whose elements are all of one kind."""
    name = f"a list of {f'{length} ' if length else ''}{kind.many}"
    example = f"[{','.join([kind.example] * (length or 2))}]"

    def accepts(value: Any) -> bool:
        return isinstance(value, list) and length in (None, len(value)) and all(map(kind.accepts, value))

    return Kind((name,), accepts, example)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


INTEGER = Kind(("an integer",), lambda value: is_number(value) and isinstance(value, int), "8", "integers")
NUMBER = Kind(("a number",), is_number, "0.5", "numbers")
SWITCH = Kind(("true", "false"), lambda value: isinstance(value, bool), "true", "true or false")
WORD = Kind(("a word",), lambda value: isinstance(value, str) and value != "", "word", "words")
NULL = Kind(("null",), lambda value: value is None, "null")
GRID = Kind(("HxW",), lambda v: isinstance(v, str) and bool(re.fullmatch(r"[1-9]\d*x[1-9]\d*", v)), "28x56")
SIZE = Kind(("N or HxW",), (INTEGER | GRID).accepts, "28", "sizes (N or HxW)")

# every key that may be null, or takes more than one form
KINDS: dict[str, Kind] = {
    "epochs": INTEGER | NULL,
    "steps": INTEGER | NULL,
    "device_batch_size": INTEGER | NULL,
    "validate_every": INTEGER | NULL,
    "evaluate_every": INTEGER | NULL,
    "resume": WORD | NULL,
    "sweep": WORD | NULL,
    "init_from": WORD | NULL,
    "trust": list_of(WORD),
    "report": WORD | NULL,
    "baseline": WORD | NULL,
    "published": WORD | NULL,
    "data.size": INTEGER | list_of(INTEGER, 2) | NULL,
    "data.limit": INTEGER | NULL,
    "data.validate": INTEGER | NULL,
    "data.area": list_of(NUMBER, 2) | NULL,
    "data.mean": list_of(NUMBER, 3),
    "data.std": list_of(NUMBER, 3),
    "data.config": WORD | NULL,
    "data.revision": WORD | NULL,
    "data.cache": WORD | NULL,
    "pos.clamp_len": INTEGER | NULL,
    "pos.span": INTEGER | NULL,
    "pos.log_buckets": INTEGER | NULL,
    "model.patch_size": INTEGER | list_of(INTEGER, 2),
    "pos.reference": INTEGER | NULL,
    "pos.shift": NUMBER | NULL,
    "pos.jitter": NUMBER | NULL,
    "pos.rescale": NUMBER | NULL,
    "pos.max_frequency": NUMBER | NULL,
    "optim.betas": list_of(NUMBER, 2),
    "optim.clip": NUMBER | NULL,
    "optim.ema": NUMBER | NULL,
    "hardware.devices": INTEGER | one_of("auto") | list_of(INTEGER),
    "hardware.precision": WORD | INTEGER | NULL,
    "hardware.deterministic": SWITCH | one_of("warn"),
    "logger.wandb.entity": WORD | NULL,
    "logger.wandb.group": WORD | NULL,
    "logger.trackio.group": WORD | NULL,
    "logger.wandb.tags": list_of(WORD),
    "pos.scaling": Kind(("null, and pos/scaling=WORD is what chooses it",), NULL.accepts, "null"),
    "pos.scaling.factor": NUMBER | NULL,
    "pos.scaling.original": INTEGER | NULL,
    "pos.scaling.short": list_of(NUMBER) | NULL,
    "variants.scaling": list_of(WORD) | NULL,
    "variants.resample": list_of(WORD) | NULL,
    "variants.antialias": list_of(SWITCH) | NULL,
    "evaluate.resolution.sizes": list_of(SIZE) | NULL,
    "evaluate.resolution.images": INTEGER | NULL,
    "evaluate.length.sizes": list_of(INTEGER) | NULL,
    "evaluate.length.history": INTEGER | NULL,
    "evaluate.blocks.sizes": list_of(INTEGER) | NULL,
    "evaluate.blocks.history": INTEGER | NULL,
    "evaluate.recall.sizes": list_of(INTEGER) | NULL,
    "evaluate.shift.sizes": list_of(INTEGER) | NULL,
    "evaluate.shift.length": INTEGER | NULL,
    "evaluate.shift.images": INTEGER | NULL,
    "evaluate.attention.sizes": list_of(SIZE) | NULL,
    "evaluate.cost.sizes": list_of(SIZE) | NULL,
    "evaluate.cost.target": NUMBER | NULL,
}
# what a ??? waits for
REQUIRED: dict[str, Kind] = {
    "pos.scaling.long": list_of(NUMBER),
    "data.name": Kind(("OWNER/NAME on the Hub", "a folder of parquet files"), WORD.accepts, "OWNER/NAME"),
    "data.folder": Kind(("a folder", "a file"), WORD.accepts, "FOLDER"),
    "data.root": Kind(("a folder",), WORD.accepts, "FOLDER"),
    "runs": Kind(("a run directory", "a quoted glob", "a list of them"), (WORD | list_of(WORD)).accepts, "'runs/*'"),
}
# the least that makes sense, of a number or of each number in a list
LEAST: dict[str, int] = {
    "seed": 0,
    "workers": 0,
    "hardware.num_nodes": 1,
    "data.vocab": 257,  # every byte, and the separator
    "evaluate.batch_size": 1,
    "evaluate.resolution.sizes": 1,
    "evaluate.length.sizes": 1,
    "evaluate.blocks.sizes": 1,
    "evaluate.recall.sizes": 1,
    "evaluate.shift.sizes": 0,
    "evaluate.attention.sizes": 1,
    "evaluate.cost.sizes": 1,
    "evaluate.cost.batch_size": 1,
} | dict.fromkeys(
    (
        "epochs",
        "steps",
        "global_batch_size",
        "device_batch_size",
        "validate_every",
        "evaluate_every",
        "logger.every",
        "data.size",
        "data.limit",
        "data.validate",
        "data.processes",
    ),
    1,
)

MOST: dict[str, int] = {"seed": 2**32 - 1}  # what every random generator takes


def kind_of(key: str, default: Any) -> Kind:
    """What the default of a key, or the table, admits."""
    key = re.sub(r"\bparts\.\w+\.", "", key)  # a part of a composed encoding is as the encoding alone
    if default == "???":
        return REQUIRED.get(key, WORD)
    if key in KINDS:
        return KINDS[key]
    if default is None:
        return WORD | NUMBER | SWITCH | list_of(WORD | NUMBER) | NULL
    for kind in (SWITCH, INTEGER, NUMBER):
        if kind.accepts(default):
            return kind
    if isinstance(default, list):
        element = next((kind for kind in (SWITCH, INTEGER, NUMBER) if all(map(kind.accepts, default))), WORD)
        return list_of(element)
    return WORD


def complaint(key: str, value: Any, default: Any, words: list[str]) -> str | None:
    """What is wrong with a value, as the rest of a sentence after "key=value: "; None where nothing is.

    `words` are all that a key accepts where its YAML lists them.
    """
    kind = kind_of(key, default)
    if isinstance(value, str) and "${" in value:
        return None  # an interpolation
    if value == "" and not kind.accepts(value):
        example = kind.example if default in (None, "???") else shown(default)
        return f"a value is missing: {kind.name}, such as {key}={example}"
    if not kind.accepts(value):
        quote = f", and a word of digits is quoted twice: {key}=\"'{shown(value)}'\"" if kind is WORD else ""
        usual = "" if default == "???" else f" (default {shown(default)})"
        return f"{quoted(value)} is not {kind.name}{usual}{quote}"
    if words and value not in words:
        return f"{quoted(value)} is not one of {', '.join(words)}"
    numbers = [number for number in (value if isinstance(value, list) else [value]) if NUMBER.accepts(number)]
    if key in LEAST and any(number < LEAST[key] for number in numbers):
        return f"{key} is {LEAST[key]} or more"
    if key in MOST and any(number > MOST[key] for number in numbers):
        return f"{key} is {MOST[key]} or less"
    return None


def shown(value: Any) -> str:
    """A value as one would type it."""
    if isinstance(value, list):
        return f"[{','.join(map(shown, value))}]"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def quoted(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else shown(value)
