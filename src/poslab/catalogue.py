"""The table of all encodings, from what their classes claim: python -m poslab.catalogue writes it into README.md."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from .build import build_encodings
from .cli.configs import Configs
from .positions import PositionEncoding, Spec

README = Path(__file__).resolve().parents[2] / "README.md"
START, END = "<!-- encodings: made by python -m poslab.catalogue -->", "<!-- end of encodings -->"
# the models whose parameters are counted: GPT-2 124M and ViT-S/16
TEXT = Spec(768, 12, (1024,), causal=True, layers=12)
IMAGE = Spec(384, 6, (14, 14), causal=False, layers=12)
PLACES = {
    "embed": "added to tokens",
    "rotate": "turns q, k",
    "bias": "added to scores",
    "content_bias": "reads q, k",
}


@dataclass(frozen=True)
class Entry:
    """A word, and what its classes say about it with the defaults of its file."""

    word: str
    what: str  # the first line of the file, which names the source
    places: list[str]
    parameters: dict[str, int]  # "text", "image" -> numbers learned in all layers
    relative: dict[str, bool]  # scores read differences of positions only
    unbounded: dict[str, bool]  # defined past the trained extent


def entries() -> list[Entry]:
    """All words of configs/pos, by the place where they act first."""
    configs = Configs("train")
    found = []
    for word in configs.options("pos"):
        node = configs.compose([f"pos={word}"]).values["pos"]
        built = {name: build_encodings(node, spec) for name, spec in (("text", TEXT), ("image", IMAGE))}
        applies = {name: layers for name, layers in built.items() if layers is not None}
        first = next(iter(applies.values()))[0]
        places = [name for name in PLACES if first.overrides(name)]
        parameters = {name: count(layers) for name, layers in applies.items()}
        relative = {name: all(layer.shift_invariant for layer in layers) for name, layers in applies.items()}
        unbounded = {name: all(layer.unbounded for layer in layers) for name, layers in applies.items()}
        found.append(Entry(word, configs.summary("pos", word), places, parameters, relative, unbounded))
    order = list(PLACES)
    return sorted(found, key=lambda entry: (order.index(entry.places[0]) if entry.places else -1, entry.word))


def count(layers: list[PositionEncoding]) -> int:
    return sum(parameter.numel() for parameter in nn.ModuleList(layers).parameters())


def table() -> str:
    """The entries in Markdown."""
    lines = [
        "| word | what, and its source | acts where | text | image | relative | past the trained extent |",
        "| :--- | :--- | :--- | ---: | ---: | :---: | :--- |",
    ]
    for entry in entries():
        numbers = [f"{entry.parameters[name]:,}" if name in entry.parameters else "" for name in ("text", "image")]
        where = ", ".join(PLACES[place] for place in entry.places) or "nowhere"
        claims = [words(entry.relative, "yes", "no"), words(entry.unbounded, "defined", "not defined")]
        cells = [f"`{entry.word}`", entry.what.rstrip("."), where, *numbers, *claims]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def words(claims: dict[str, bool], true: str, false: str) -> str:
    """A claim in a word, or in one for each kind of model where they differ."""
    said = {name: true if claim else false for name, claim in claims.items()}
    if len(set(said.values())) == 1:
        return next(iter(said.values()))
    return ", ".join(f"{name}: {word}" for name, word in said.items())


def write(path: Path = README) -> bool:
    """Put the table between the marks in a file; False where it stood there already."""
    text = path.read_text()
    new = re.sub(
        f"(?<={re.escape(START)}\n).*?(?={re.escape(END)})", lambda _: f"\n{table()}\n\n", text, flags=re.DOTALL
    )
    path.write_text(new)
    return new != text


if __name__ == "__main__":
    sys.stdout.write("README.md: written.\n" if write() else "README.md: up to date.\n")
