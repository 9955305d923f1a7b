"""Files and directories that others may be reading, and how a person writes their paths."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` at the end of the block; after an error nothing does."""
    part = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield part
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write(path: Path, text: str) -> None:
    """Replace a file as a whole."""
    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def new_directory(parent: Path, name: str) -> Path:
    """A directory of this name, ours alone, or with -2, -3, ... where another process was first."""
    parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        directory = parent / (name if number == 1 else f"{name}-{number}")
        try:
            directory.mkdir()
            return directory
        except FileExistsError:
            number += 1


def shown(path: Path) -> Path:
    """How a person would write it: relative where it lies below the current directory."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
