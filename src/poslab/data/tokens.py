"""Text of any size in tokens of any kind: read from files that are made once and mapped into memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..errors import UsageError
from ..files import write
from ..lock import in_turn
from ..optional import need
from .chunks import SPLITS
from .meter import Meter
from .packing import FORMAT, Source, packed, paths
from .text import DenseText
from .tokenizer import Tokenizer, hashed, is_text, load_tokenizer, trained

SAMPLE = 2**30  # bytes of the training split that a tokenizer is trained on, at most


class TokenText(DenseText):
    """Documents of a source as tokens, each ended by a separator in the stream of its split.

    The tokens lie in `cache`, in a folder for each source and in it one for each tokenizer. One process makes them,
    others that want the same wait for it.

    Args:
        source: the documents. context: tokens of a training sequence.
        tokenizer: `bytes`; `bpe`, trained on the training split; or what `load_tokenizer` takes.
        vocab: tokens of `bpe`. cache: a folder; None: poslab in the user's cache. processes: that tokenise.

    `kept`: files that a run keeps so that its texts can be read later. `bytes_per_token` is that of the test
    documents. ValueError where a split has less than one block, UsageError for what cannot be loaded.
    """

    def __init__(
        self,
        source: Source,
        context: int,
        tokenizer: str = "bytes",
        vocab: int = 8192,
        cache: str | None = None,
        processes: int = 1,
    ) -> None:
        home = cache_folder(cache) / f"{source.title}-{hashed(FORMAT, source.identity())}"
        try:
            home.mkdir(parents=True, exist_ok=True)
            (home / "lock").touch()
        except OSError as error:
            raise UsageError(
                f"{home} cannot be written ({error.strerror}): choose another folder, data.cache=FOLDER."
            ) from error
        with in_turn(home / "lock", f"waiting for another run, which tokenises {source.title}"):
            super().__init__(bpe(source, vocab, home) if tokenizer == "bpe" else load_tokenizer(tokenizer), context)
            self.folder = home / hashed(self.tokenizer.file)
            self.index = packed(source, self.tokenizer, self.folder, processes)
        self.kept = {} if self.tokenizer.file is None else {"tokenizer.json": self.tokenizer.file}
        self._say_what_is_left_out(source)
        streams = {split: self._mapped(split) for split in SPLITS}
        self.train, self.val, self.test = (self.cut(split, streams[split]) for split in SPLITS)
        ends = np.fromfile(paths(self.folder, "test")[1], np.int64)
        self.whole = [streams["test"][start : end - 1] for start, end in zip([0, *ends[:-1]], ends)]
        test = self.index["test"]
        self.bytes_per_token = test["bytes"] / (test["tokens"] - test["documents"])

    def _mapped(self, split: str) -> np.ndarray:
        kind = np.min_scalar_type(self.vocab - 1)
        if not self.index[split]["tokens"]:  # nothing cannot be mapped
            return np.empty(0, kind)
        return np.asarray(np.memmap(paths(self.folder, split)[0], kind, "r"))

    def _say_what_is_left_out(self, source: Source) -> None:
        empty, broken = self.index["empty"], self.index["broken"]
        if broken:
            warnings.warn(
                f"{source.title}: documents that are no UTF-8 are left out, {broken:,} of them, such as "
                f"{self.index['example']}; data.tokenizer=bytes reads them",
                stacklevel=3,
            )
        if empty:
            warnings.warn(f"{source.title}: empty documents are left out, {empty:,} of them", stacklevel=3)

    def fingerprint(self) -> str:
        """A hash of all tokens of all splits and where their documents end, whatever they were made from."""
        return hashed(self.vocab, *(self.index[split]["hash"] for split in SPLITS))


class Prompts:
    """What writing needs of text data, without its text: a tokenizer.json that a run kept."""

    kind = "text"

    def __init__(self, tokenizer: Tokenizer, context: int) -> None:
        self.vocab, self.context = tokenizer.vocab, context
        self.encode, self.decode = tokenizer.encode, tokenizer.decode


def bpe(source: Source, vocab: int, home: Path) -> Tokenizer:
    """A tokenizer of `vocab` tokens trained on the training documents, once."""
    need("tokenizers", "data.tokenizer=bpe", "text")
    path = home / f"bpe{vocab}.json"
    if not path.exists():
        write(path, trained(training_texts(source), vocab))
    return load_tokenizer(str(path))


def training_texts(source: Source) -> Iterator[str]:
    """The training documents that are UTF-8, up to SAMPLE bytes."""
    with Meter(f"reading {source.title} for the tokenizer", source.size and min(source.size, SAMPLE)) as meter:
        done = 0
        for _, split, document in source:
            if split != "train" or not is_text(document):  # what is none is counted when it is tokenised
                continue
            yield document.decode()
            done += len(document)
            meter.at(done)
            if done >= SAMPLE:
                return


def cache_folder(chosen: str | None) -> Path:
    """Where tokens are kept: `chosen`, or poslab in XDG_CACHE_HOME, or in ~/.cache."""
    if chosen is not None:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "poslab"
