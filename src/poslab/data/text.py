"""Text as integer tokens: blocks to train on, whole documents to measure on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from .tokenizer import Bytes, Tokenizer

T = TypeVar("T")
IGNORE = -100  # a target that no loss and no metric counts


class TextSplit(Protocol):
    """Samples that a batch of indices picks; -1 pads with targets that count nowhere."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
        """{"inputs": (B, T), "targets": (B, T)}: the target of a position is the token after it."""
        ...


class TextData(Protocol):
    """What a text data set offers to a task and to the evaluators.

    `dense`: no training target is ignored, so that every batch weighs the same. Others are problems
    with an answer, see `Synthetic`.
    `unit`: what a token, or a length of such a problem, is called: byte, token.
    `bytes_per_token`: to turn nats per token into bits per byte; None where bytes mean nothing.
    `separator`: the token between documents; None where a sequence has nothing in front of it.
    """

    kind: str
    vocab: int
    context: int
    dense: bool
    unit: str
    bytes_per_token: float | None
    separator: int | None
    train: TextSplit
    val: TextSplit
    test: TextSplit

    def windows(self, context: int, history: int, targets: int, count: int) -> Windows:
        """Where `dense`: `count` groups of `targets` test tokens, the same at every context up to `history`."""
        ...

    def blocks(self, context: int, history: int, count: int) -> Windows:
        """Where `dense`: `count` pieces of `history` test tokens, in blocks of `context` that do not overlap."""
        ...

    def fingerprint(self) -> str: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: list[int]) -> str: ...


class Windows:
    """Test sequences of one length: inputs and targets (N, context), and the document (N,) each is from."""

    def __init__(self, inputs: Tensor, targets: Tensor, document: Tensor, protocol: str) -> None:
        self.inputs, self.targets, self.document, self.protocol = inputs, targets, document, protocol

    def __len__(self) -> int:
        return len(self.inputs)


class Blocks:
    """Consecutive blocks of a token stream (N,), in memory or in a mapped file: block b reads b*T ... b*T + T - 1."""

    def __init__(self, stream: np.ndarray, context: int) -> None:
        self.stream, self.context = stream, context
        self.steps = torch.arange(context + 1)

    def __len__(self) -> int:
        return (len(self.stream) - 1) // self.context

    def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
        places = (index.clamp(min=0) * self.context)[:, None] + self.steps
        tokens = torch.from_numpy(self.stream[places.numpy()].astype(np.int64))
        targets = tokens[:, 1:]
        if (index < 0).any():
            targets = targets.masked_fill((index < 0)[:, None], IGNORE)
        return {"inputs": tokens[:, :-1], "targets": targets}


class DenseText:
    """Text of which every token is a target. The documents of `whole`, which test, can be read in one piece.

    Args:
        tokenizer: what made the tokens. context: tokens of a training sequence.

    Raises ValueError for a context of less than one.
    """

    kind = "text"
    dense = True
    whole: Sequence[np.ndarray]

    def __init__(self, tokenizer: Tokenizer, context: int) -> None:
        if context < 1:
            raise ValueError(f"context={context}: a sequence has at least one token.")
        self.tokenizer, self.context = tokenizer, context
        self.vocab, self.unit, self.separator = tokenizer.vocab, tokenizer.unit, tokenizer.separator

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens)

    def cut(self, name: str, stream: np.ndarray) -> Blocks:
        """The blocks of a split; ValueError where it has less than one."""
        if len(stream) <= self.context:
            raise ValueError(
                f"The {name} split holds {len(stream)} {self.unit}s, a block of context={self.context} needs "
                f"{self.context + 1}: add text or shorten the context."
            )
        return Blocks(stream, self.context)

    def windows(self, context: int, history: int, targets: int, count: int) -> Windows:
        """`count` groups of `targets` test tokens, the same at every context up to `history`.

        A group lies inside one document with at least `history` tokens up to its end; groups are
        spread evenly over all such places, no two overlap. ValueError where there is none.
        """
        if not targets <= context <= history:
            raise ValueError(f"A window wants targets <= context <= history, not {targets}, {context}, {history}.")
        places = [
            (number, end)
            for number, document in enumerate(self.whole)
            for end in range(history, len(document), targets)
        ]
        if not places:
            raise ValueError(
                f"No test document is longer than history={history} {self.unit}s: "
                "lower evaluate.length.history or the sizes."
            )
        chosen = spread(places, count)
        rows = np.stack([self.whole[n][end - context : end + 1] for n, end in chosen])
        tokens = torch.from_numpy(rows).long()
        expected = tokens[:, 1:].clone()
        expected[:, : context - targets] = IGNORE
        document = torch.tensor([n for n, _ in chosen])
        protocol = f"same {targets} target {self.unit}s after up to {history} {self.unit}s of the same document"
        return Windows(tokens[:, :-1], expected, document, protocol)

    def blocks(self, context: int, history: int, count: int) -> Windows:
        """`count` pieces of `history` test tokens cut into blocks of `context`; what is left of a piece is left out.

        A piece lies inside one document; pieces are spread evenly over all such places, no two
        overlap. ValueError where there is none.
        """
        places = [
            (number, first)
            for number, document in enumerate(self.whole)
            for first in range(0, len(document) - history, history)
        ]
        if not places:
            raise ValueError(
                f"No test document is longer than history={history} {self.unit}s: "
                "lower evaluate.blocks.history or the sizes."
            )
        starts = [
            (n, first + at) for n, first in spread(places, count) for at in range(0, history - context + 1, context)
        ]
        rows = np.stack([self.whole[n][start : start + context + 1] for n, start in starts])
        tokens = torch.from_numpy(rows).long()
        document = torch.tensor([n for n, _ in starts])
        return Windows(tokens[:, :-1], tokens[:, 1:], document, f"blocks of pieces of {history} {self.unit}s")


class ByteText(DenseText):
    """Documents as bytes, split by document, each ended by one zero byte in the training stream.

    Args:
        documents: train, val and test, each a list of byte strings.
        context: tokens of a training sequence.

    Raises ValueError where a split has less than one block.
    """

    bytes_per_token = 1.0

    def __init__(self, documents: dict[str, list[bytes]], context: int) -> None:
        super().__init__(Bytes(), context)
        self.documents = {
            name: [np.frombuffer(document, np.uint8) for document in split] for name, split in documents.items()
        }
        self.whole = self.documents["test"]
        self.train, self.val, self.test = (self.cut(name, self._stream(name)) for name in ("train", "val", "test"))

    def _stream(self, name: str) -> np.ndarray:
        ended = [np.append(document, np.uint8(0)) for document in self.documents[name]]
        return np.concatenate(ended or [np.empty(0)]).astype(np.uint8)

    def fingerprint(self) -> str:
        """A hash of all bytes of all splits, in order."""
        digest = hashlib.sha256()
        for name in ("train", "val", "test"):
            for document in self.documents[name]:
                digest.update(len(document).to_bytes(8, "little") + document.tobytes())
        return digest.hexdigest()[:16]


def spread(places: Sequence[T], count: int) -> list[T]:
    """At most `count` of `places`, evenly, from the first to the last."""
    chosen = np.unique(np.linspace(0, len(places) - 1, min(count, len(places))).round().astype(int))
    return [places[index] for index in chosen]
