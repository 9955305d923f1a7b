"""Whose classes a configuration may name: those that configs/ lists, and those of packages that a person trusts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
COMPOSED = ("poslab.positions.sum.Sum", "poslab.positions.layers.Layers")  # of pos=a+b and pos=a-b, written as needed
_packages: set[str] = set()


def trust(*packages: str) -> None:
    """Let configurations name classes of these packages, in this process.

    Never called with what a file says: a configuration may come from a stranger.
    """
    _packages.update(packages)


def home(target: str) -> str | None:
    """The package whose class `target`, a dotted path, has to be; None where it may not be called."""
    trusted = (package for package in _packages if target.startswith(f"{package}."))
    return next(trusted, "poslab" if target in listed() else None)


@cache
def listed() -> frozenset[str]:
    """The classes of poslab that a file of configs/ names."""
    texts = (path.read_text() for path in CONFIGS.rglob("*.yaml"))
    found = (target for text in texts for target in re.findall(r"^ *_target_: *(poslab\.[\w.]+)", text, re.MULTILINE))
    return frozenset([*found, *COMPOSED])
