"""Documents as tokens in files that are mapped into memory: written once, and gone on with after an interruption."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..files import write
from .chunks import SPLITS, chunks, encoded
from .meter import Meter
from .tokenizer import Tokenizer

FORMAT = 1  # of the files below, and how documents are cut


class Source(Protocol):
    """Documents, each of one split, the same in the same order whenever they are read.

    `title`: for a person. `size`: bytes of all documents, about, None where nobody knows. `identity`: changes
    when a document does.
    """

    title: str

    @property
    def size(self) -> int | None: ...

    def identity(self) -> str: ...

    def __iter__(self) -> Iterator[tuple[str, str, bytes]]:
        """(name, split, content)."""
        ...


@dataclass
class Usable:
    """The documents of a source that a tokenizer can read, and a count of the others."""

    source: Source
    tokenizer: Tokenizer
    empty: int = 0
    broken: int = 0
    example: str = ""  # of a broken one

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        self.empty = self.broken = 0
        for name, split, document in self.source:
            if not document:
                self.empty += 1
            elif not self.tokenizer.reads(document):
                self.broken, self.example = self.broken + 1, self.example or name
            else:
                yield split, document


def packed(source: Source, tokenizer: Tokenizer, folder: Path, processes: int) -> dict[str, Any]:
    """The index of the files in `folder`, which are written where they are not complete.

    SPLIT.tokens has the tokens of all documents of a split, each with a separator behind it, in the smallest
    unsigned integers that hold the vocabulary; SPLIT.ends (int64) the place behind each separator; index.json says how
    much of them is valid: after an interruption writing goes on there. They do not depend on `processes`.
    """
    index = folder / "index.json"
    state: dict[str, Any] = {"complete": False, "chunks": 0, "bytes": 0}
    if index.exists():
        state = json.loads(index.read_text())
    if state["complete"]:
        return state
    folder.mkdir(exist_ok=True)
    usable = Usable(source, tokenizer)
    kind = np.min_scalar_type(tokenizer.vocab - 1)
    with ExitStack() as stack:
        files = {split: stack.enter_context(SplitFile(folder, split, kind, state.get(split, {}))) for split in SPLITS}
        meter = stack.enter_context(Meter(f"tokenising {source.title}", source.size))
        meter.at(state["bytes"])
        for result in encoded(chunks(usable), state["chunks"], tokenizer, kind, processes):
            for split, (tokens, ends, size) in result.items():
                files[split].append(tokens, ends, size)
            state |= {split: file.counts() for split, file in files.items()}
            state |= {"chunks": state["chunks"] + 1, "bytes": sum(file.size for file in files.values())}
            write(index, json.dumps(state))
            meter.at(state["bytes"])
        state |= {split: file.counts() | {"hash": file.hash()} for split, file in files.items()}
    state |= {"complete": True, "empty": usable.empty, "broken": usable.broken, "example": usable.example}
    write(index, json.dumps(state, indent=1))
    return state


@dataclass
class SplitFile:
    """The two files of a split, appended to."""

    folder: Path
    split: str
    kind: np.dtype
    state: dict[str, int]
    size: int = field(init=False)  # bytes of the documents

    def __enter__(self) -> SplitFile:
        self.tokens, self.documents, self.size = (self.state.get(key, 0) for key in ("tokens", "documents", "bytes"))
        self._files = [opened(path) for path in paths(self.folder, self.split)]
        for file, valid in zip(self._files, (self.tokens * self.kind.itemsize, self.documents * 8)):
            file.truncate(valid)
            file.seek(valid)
        return self

    def __exit__(self, *error: Any) -> None:
        for file in self._files:
            file.close()

    def append(self, tokens: np.ndarray, ends: np.ndarray, size: int) -> None:
        for file, array in zip(self._files, (tokens, self.tokens + ends)):
            file.write(array.tobytes())
            file.flush()
            os.fsync(file.fileno())  # before the index says that it is there
        self.tokens, self.documents, self.size = self.tokens + len(tokens), self.documents + len(ends), self.size + size

    def counts(self) -> dict[str, Any]:
        return {"tokens": self.tokens, "documents": self.documents, "bytes": self.size}

    def hash(self) -> str:
        return file_hash(*paths(self.folder, self.split))


def paths(folder: Path, split: str) -> tuple[Path, Path]:
    return folder / f"{split}.tokens", folder / f"{split}.ends"


def opened(path: Path) -> Any:
    path.touch()
    return path.open("r+b")


def file_hash(*files: Path) -> str:
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    return digest.hexdigest()
