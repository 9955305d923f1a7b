"""pos=rope2d+learned and pos=rope-none: encodings composed on the command line become files that Hydra finds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError

GROUP = "pos"
SCRATCH = "poslab-compositions-"  # how the names of the folders begin that hold such files


def parts_of(word: str) -> list[str]:
    """The plain words of a composed one, each once: a and b of a+b (a sum) or a-b (layers by turns)."""
    return list(dict.fromkeys(re.split(r"[+-]", word)))


def composed_words(overrides: Sequence[str]) -> list[str]:
    """Words of the command line that join others with + or -."""
    values = [override.partition("=")[2] for override in overrides if override.startswith(f"{GROUP}=")]
    words = [word.strip() for value in values if "(" not in value for word in value.split(",")]
    return [word for word in words if re.fullmatch(r"\w+([+-]\w+)+", word)]


def write_compositions(words: Sequence[str], known: Sequence[str], folder: Path) -> None:
    """A file for each composed word under `folder`, and for each sum that layers use.

    Raises UsageError where a part is not one of the `known` words.
    """
    for word in words:
        for part in parts_of(word):
            if part not in known:
                choices = ", ".join(known)
                raise UsageError(f"{GROUP}={word}: there is no '{part}' in configs/{GROUP}; choose from {choices}.")
        sums = [layer for layer in word.split("-") if "+" in layer]
        for composed in dict.fromkeys([*sums, word]):
            path = folder / GROUP / f"{composed}.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text(composed))


def text(word: str) -> str:
    """The YAML of a composed word: its parts under `parts`, each a file of its own."""
    layers = word.split("-")
    parts = dict.fromkeys(layers if len(layers) > 1 else word.split("+"))
    defaults = "\n".join(f"  - {part}@parts.{key(part)}" for part in parts)
    if len(layers) > 1:
        head, body = f"# Layers by turns: {', '.join(layers)}.", f"order: [{', '.join(map(key, layers))}]"
        target = "poslab.positions.layers.Layers"
    else:
        head, body = f"# The sum of {' and '.join(parts)}.", "_partial_: true"
        target = "poslab.positions.sum.Sum"
    return f"{head}\ndefaults:\n{defaults}\n  - _self_\n\n_target_: {target}\n{body}\n"


def key(part: str) -> str:
    """A part's name below `parts`."""
    return part.replace("+", "_")
