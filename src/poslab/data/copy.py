"""Copy a string of random symbols: a task whose length is exact."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from .text import IGNORE, Windows


class CopySplit:
    """Sample i is s_1 ... s_L, a separator, s_1 ... s_L; only the second half is asked for."""

    def __init__(self, samples: int, length: int, symbols: int, stream: int) -> None:
        self.samples, self.length, self.symbols, self.stream = samples, length, symbols, stream

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
        symbols = draw(index.clamp(min=0), self.length, self.symbols, self.stream)
        separator = torch.full((len(index), 1), self.symbols)
        tokens = torch.cat((symbols, separator, symbols), dim=1)
        targets = tokens[:, 1:].clone()
        targets[:, : self.length] = IGNORE
        targets[index < 0] = IGNORE
        return {"inputs": tokens[:, :-1], "targets": targets}


class Copy:
    """Strings of `length` symbols out of `symbols` kinds; training sequences have 2 * length tokens.

    Samples are computed from their number, so there is nothing to store: `samples` make an epoch,
    1,000 validate and 1,000 test, from other streams.
    """

    kind = "text"
    dense = False
    bytes_per_token = None
    separator = None

    def __init__(self, length: int = 16, symbols: int = 16, samples: int = 20_000) -> None:
        if length < 1 or symbols < 2 or samples < 1:
            raise ValueError(f"copy wants length >= 1, symbols >= 2, samples >= 1, not {length}, {symbols}, {samples}.")
        self.length, self.symbols = length, symbols
        self.vocab, self.context = symbols + 1, 2 * length
        self.train = CopySplit(samples, length, symbols, stream=0)
        self.val = CopySplit(1000, length, symbols, stream=1)
        self.test = CopySplit(1000, length, symbols, stream=2)

    def windows(self, context: int, history: int, targets: int, count: int) -> Windows:
        """Test strings of context / 2 symbols: another length is another task, with targets of its own."""
        if context % 2:
            raise ValueError(f"A copy of L symbols has 2L tokens: size {context} is odd.")
        batch = CopySplit(count, context // 2, self.symbols, stream=2)[torch.arange(count)]
        return Windows(batch["inputs"], batch["targets"], torch.arange(count), "copy a string of size / 2 symbols")

    def fingerprint(self) -> str:
        symbols = self.test[torch.arange(len(self.test))]["inputs"]
        return hashlib.sha256(symbols.numpy().tobytes()).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        """Letters a, b, ... are symbols, "|" is the separator."""
        tokens = [self.symbols if letter == "|" else ord(letter) - ord("a") for letter in text]
        if any(not 0 <= token <= self.symbols for token in tokens):
            last = chr(ord("a") + self.symbols - 1)
            raise ValueError(f"A prompt for data=copy is letters a ... {last} and the separator |, not {text!r}.")
        return tokens

    def decode(self, tokens: list[int]) -> str:
        return "".join("|" if token == self.symbols else chr(ord("a") + token) for token in tokens)


def draw(index: Tensor, length: int, symbols: int, stream: int) -> Tensor:
    """(B, length) symbols that depend on (stream, index, place) alone, by the splitmix64 mixer."""
    z = index[:, None] * 0x1_0000 + torch.arange(length) + stream * 0x100_0000_0000
    z = z * -7046029254386353131
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
        z = (z ^ (z >> shift & (1 << (64 - shift)) - 1)) * factor
    z = z ^ (z >> 31 & (1 << 33) - 1)
    return (z & 0x7FFF_FFFF) % symbols
