"""Tasks whose samples are computed from their number: trained on up to one length, asked at any other."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from .text import IGNORE

MIXERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], dtype=np.uint64)


class Draw:
    """Integers that depend on (stream, index, place) alone: splitmix64 of a counter, Steele et al. 2014.

    Args:
        index: (B,) numbers of samples. stream: 0, 1, ...; no two streams share an integer.

    Each call takes the next places of every sample.
    """

    def __init__(self, index: Tensor, stream: int) -> None:
        # NumPy, whose integers may be unsigned, and which starts faster on so few of them
        self.start = (index.numpy()[:, None] * 2**24 + stream * 2**56).astype(np.uint64)
        self.taken = 0

    def bits(self, count: int) -> Tensor:
        """(B, count) of 31 bits each."""
        z = (self.start + np.arange(self.taken, self.taken + count, dtype=np.uint64)) * MIXERS[0]
        self.taken += count
        z = (z ^ (z >> np.uint64(30))) * MIXERS[1]
        z = (z ^ (z >> np.uint64(27))) * MIXERS[2]
        return torch.from_numpy((z >> np.uint64(33)).astype(np.int64))

    def symbols(self, count: int, kinds: int) -> Tensor:
        """(B, count) of 0 ... kinds - 1, independent and equally likely."""
        return self.bits(count) % kinds

    def order(self, count: int) -> Tensor:
        """(B, count) permutations."""
        return self.bits(count).argsort(dim=1, stable=True)


class Synthetic(ABC):
    """Text data whose samples are problems with one right answer.

    A sample is a problem, from position 0 on as a language model meets a text, and padding behind
    it. Only the answer is a target. It has no end token: that a model must also predict where an
    answer ends can by itself keep it from longer ones (Newman et al. 2020, The EOS Decision and
    Length Extrapolation). Nothing is stored: `samples` problems make an epoch, 1,000 validate and
    1,000 test, from other streams of random numbers.

    Args:
        glyphs: a character for each token, for prompts and print.
        length: of the longest training problem, in `unit`.
        samples: problems that make an epoch.
        lengths: `varied`, each sample has 1 ... length, equally likely; `fixed`, all have `length`,
            which a model can solve with one answer for each absolute position or each distance, so
            that nothing is said about other lengths.

    Raises ValueError for a length that the task does not have.
    """

    kind = "text"
    dense = False
    bytes_per_token = None
    unit: str  # what a length counts
    rule: str  # the task in a few words

    def __init__(self, glyphs: str, length: int, samples: int, lengths: str) -> None:
        if length < 1 or samples < 1:
            raise ValueError(f"data={self.name} wants length >= 1 and samples >= 1, not {length} and {samples}.")
        if lengths not in ("varied", "fixed"):
            raise ValueError(f"data.lengths={lengths} is none of varied, fixed.")
        self.length = length
        self.padding, self.vocab = len(glyphs), len(glyphs) + 1
        self.glyphs = glyphs + " "
        shortest = length if lengths == "fixed" else 1
        self.train = Problems(self, samples, shortest, length, stream=0)
        self.val = Problems(self, 1000, shortest, length, stream=1)
        self.test = Problems(self, 1000, shortest, length, stream=2)
        self.context = self.train.context

    @abstractmethod
    def problem(self, draw: Draw, length: int) -> tuple[Tensor, Tensor]:
        """(B, T) tokens of question and answer, and (T,) which are the answer. ValueError for a length that is not."""

    @abstractmethod
    def chance(self, length: int) -> float:
        """How often a whole answer is right whose tokens are drawn evenly from those that its places may hold."""

    @property
    def name(self) -> str:
        return type(self).__name__.lower()

    def at(self, length: int, count: int) -> Problems:
        """`count` test problems of one length, of a stream of their own. ValueError for a length that is not there."""
        return Problems(self, count, length, length, stream=3)

    def fingerprint(self) -> str:
        """A hash of the test problems and their answers."""
        batch = self.test[torch.arange(len(self.test))]
        both = torch.cat((batch["inputs"], batch["targets"]), dim=1)
        return hashlib.sha256(both.numpy().tobytes()).hexdigest()[:16]

    def encode(self, text: str) -> list[int]:
        tokens = [self.glyphs.find(letter) for letter in text]
        if -1 in tokens or self.padding in tokens:
            raise ValueError(f"A prompt for data={self.name} is made of {self.glyphs[:-1]}, not {text!r}.")
        return tokens

    def decode(self, tokens: list[int]) -> str:
        return "".join(self.glyphs[token] for token in tokens)


class Problems:
    """Numbered problems of `shortest` to `longest`; a batch of indices picks some, -1 is nothing but padding."""

    def __init__(self, data: Synthetic, samples: int, shortest: int, longest: int, stream: int) -> None:
        self.data, self.samples, self.stream = data, samples, stream
        self.shortest, self.longest = shortest, longest
        _, answer = data.problem(Draw(torch.tensor([0]), stream), longest)
        self.context = len(answer) - 1  # the last token is asked for, never read

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: Tensor) -> dict[str, Tensor]:
        """{"inputs": (B, context), "targets": (B, context)}."""
        lengths = self.shortest + Draw(index, self.stream).symbols(1, self.longest - self.shortest + 1)[:, 0]
        tokens = torch.full((len(index), self.context + 1), self.data.padding)
        targets = torch.full_like(tokens, IGNORE)
        for length in lengths[index >= 0].unique().tolist():
            rows = ((lengths == length) & (index >= 0)).nonzero()[:, 0]
            draw = Draw(index[rows], self.stream)
            draw.bits(1)  # the length itself
            problem, answer = self.data.problem(draw, length)
            tokens[rows, : problem.shape[1]] = problem
            targets[rows, : problem.shape[1]] = problem.masked_fill(~answer, IGNORE)
        return {"inputs": tokens[:, :-1], "targets": targets[:, 1:]}


def letters(count: int, upper: bool = False) -> str:
    """The first lower-case or upper-case letters of Unicode: a ... z, then accented, Greek, ... ones.

    ValueError where there are not so many.
    """
    fits = str.isupper if upper else str.islower
    found = "".join(islice(filter(fits, map(chr, range(ord("A"), 0x110000))), count))
    if len(found) < count:
        raise ValueError(f"Symbols are written as letters, and there are {len(found):,} of them, not {count:,}.")
    return found


def answer_mask(total: int, answer: int) -> Tensor:
    """(total,) True for the last `answer` tokens."""
    return torch.arange(total) >= total - answer
