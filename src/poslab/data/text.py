"""Text as integer tokens: blocks to train on, whole documents to measure on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

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
    `bytes_per_token`: to turn nats per token into bits per byte; None where bytes mean nothing.
    `separator`: the token between documents; None where a sequence has nothing in front of it.
    """

    kind: str
    vocab: int
    context: int
    dense: bool
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
    """Consecutive blocks of a token stream: block b reads tokens b*T ... b*T + T - 1."""

    def __init__(self, stream: Tensor, context: int) -> None:
        self.stream, self.context = stream, context
        self.steps = torch.arange(context + 1)

    def __len__(self) -> int:
        return (len(self.stream) - 1) // self.context

    def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
        tokens = self.stream[(index.clamp(min=0) * self.context)[:, None] + self.steps].long()
        targets = tokens[:, 1:]
        if (index < 0).any():
            targets = targets.masked_fill((index < 0)[:, None], IGNORE)
        return {"inputs": tokens[:, :-1], "targets": targets}


class ByteText:
    """Documents as bytes, split by document, each ended by one zero byte in the training stream.

    Args:
        documents: train, val and test, each a list of byte strings.
        context: tokens of a training sequence.

    Raises ValueError where a split has less than one block.
    """

    kind = "text"
    vocab = 256
    dense = True
    bytes_per_token = 1.0
    separator = 0

    def __init__(self, documents: dict[str, list[bytes]], context: int) -> None:
        if context < 1:
            raise ValueError(f"context={context}: a sequence has at least one token.")
        self.context = context
        self.documents = {
            name: [np.frombuffer(document, np.uint8) for document in split] for name, split in documents.items()
        }
        blocks = {}
        for name in ("train", "val", "test"):
            stream = np.concatenate([np.append(document, np.uint8(0)) for document in self.documents[name]] or [[]])
            if len(stream) <= context:
                raise ValueError(
                    f"The {name} split holds {len(stream)} bytes, a block of context={context} needs "
                    f"{context + 1}: add text or shorten the context."
                )
            blocks[name] = Blocks(torch.from_numpy(stream.astype(np.uint8)), context)
        self.train, self.val, self.test = blocks["train"], blocks["val"], blocks["test"]

    def windows(self, context: int, history: int, targets: int, count: int) -> Windows:
        """`count` groups of `targets` test bytes, the same at every context up to `history`.

        A group lies inside one document with at least `history` bytes up to its end; groups are
        spread evenly over all such places, no two overlap. ValueError where there is none.
        """
        if not targets <= context <= history:
            raise ValueError(f"A window wants targets <= context <= history, not {targets}, {context}, {history}.")
        places = [
            (number, end)
            for number, document in enumerate(self.documents["test"])
            for end in range(history, len(document), targets)
        ]
        if not places:
            raise ValueError(
                f"No test document is longer than history={history} bytes: lower evaluate.length.history or the sizes."
            )
        chosen = spread(places, count)
        rows = np.stack([self.documents["test"][n][end - context : end + 1] for n, end in chosen])
        tokens = torch.from_numpy(rows).long()
        expected = tokens[:, 1:].clone()
        expected[:, : context - targets] = IGNORE
        document = torch.tensor([n for n, _ in chosen])
        protocol = f"same {targets} target bytes after up to {history} bytes of the same document"
        return Windows(tokens[:, :-1], expected, document, protocol)

    def blocks(self, context: int, history: int, count: int) -> Windows:
        """`count` pieces of `history` test bytes cut into blocks of `context`; what is left of a piece is left out.

        A piece lies inside one document; pieces are spread evenly over all such places, no two
        overlap. ValueError where there is none.
        """
        places = [
            (number, first)
            for number, document in enumerate(self.documents["test"])
            for first in range(0, len(document) - history, history)
        ]
        if not places:
            raise ValueError(
                f"No test document is longer than history={history} bytes: lower evaluate.blocks.history or the sizes."
            )
        starts = [
            (n, first + at) for n, first in spread(places, count) for at in range(0, history - context + 1, context)
        ]
        rows = np.stack([self.documents["test"][n][start : start + context + 1] for n, start in starts])
        tokens = torch.from_numpy(rows).long()
        document = torch.tensor([n for n, _ in starts])
        return Windows(tokens[:, :-1], tokens[:, 1:], document, f"blocks of pieces of {history} bytes")

    def fingerprint(self) -> str:
        """A hash of all bytes of all splits, in order."""
        digest = hashlib.sha256()
        for name in ("train", "val", "test"):
            for document in self.documents[name]:
                digest.update(len(document).to_bytes(8, "little") + document.tobytes())
        return digest.hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        return bytes(tokens).decode(errors="replace")


def spread(places: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """At most `count` of `places`, evenly, from the first to the last."""
    chosen = np.unique(np.linspace(0, len(places) - 1, min(count, len(places))).round().astype(int))
    return [places[index] for index in chosen]


def describe(data: Any) -> str:
    """One line for a log: what a data set holds."""
    sizes = ", ".join(f"{len(getattr(data, name)):,} {name}" for name in ("train", "val", "test"))
    unit = "images" if data.kind == "image" else "sequences"
    return f"{type(data).__name__}: {sizes} {unit}, hash {data.fingerprint()}"
