"""Attention with a bias on a GPU: FlexAttention, SDPA with a mask, ALiBi folded; first held equal, then timed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from poslab.build import build_encodings
from poslab.positions import PositionEncoding, Spec

from . import flex
from .models import configs, words
from .pairs import ratio

if TYPE_CHECKING:
    from .gpu import Setup

BATCH = 8
FLOAT_LIMIT = 1e-4  # of what float32 may be off, relative to the largest value
HALF_LIMIT = 2e-2


def correctness(setup: Setup) -> Iterator[dict[str, Any]]:
    """Each way against the math in float64."""
    length = setup.lengths[0]
    for word, encoding in biases(setup, length).items():
        q, k, v = heads(setup, length, torch.float64)
        mask = flex.causal_bias(encoding, length, setup.device).detach().double()
        expected = F.scaled_dot_product_attention(q, k, v, mask)
        for name, attend in ways(setup, word, encoding, length).items():
            for dtype, limit in ((torch.float32, FLOAT_LIMIT), (torch.bfloat16, HALF_LIMIT)):
                with torch.no_grad():
                    found = attend(*(x.to(dtype) for x in (q, k, v))).double()
                error = float((found - expected).abs().max() / expected.abs().max())
                yield {"word": word, "way": name, "dtype": str(dtype), "error": error, "met": error <= limit}


def speed(setup: Setup) -> Iterator[dict[str, Any]]:
    """Forward and backward in bfloat16, over the fused kernel without a bias; forward alone on a CPU."""
    for length in setup.lengths:
        for word, encoding in biases(setup, length).items():
            for name, attend in ways(setup, word, encoding, length).items():
                ours, plain = (Attention(setup, length, way) for way in (attend, flex.plain))
                yield ratio(f"T={length}, `{word}`, {name}", "SDPA without a bias", ours, plain, setup.repeats).facts()


def biases(setup: Setup, length: int) -> dict[str, PositionEncoding]:
    """Every word for text that adds a bias from positions alone."""
    shape = setup.each_gpt
    spec = Spec(shape.dim, shape.heads, (length,), causal=True)
    found = {}
    for word, encoding in words(shape).items():
        if encoding.overrides("bias"):
            (built,) = build_encodings(configs().compose([f"pos={word}"]).values["pos"], spec) or ()
            found[word] = built.to(setup.device)
    return found


def ways(setup: Setup, word: str, encoding: PositionEncoding, length: int) -> dict[str, flex.Attend]:
    found = {
        "SDPA with a mask": flex.by_mask(encoding, length, setup.device),
        "FlexAttention": flex.by_flex(encoding, length, setup.device, setup.compiled),
    }
    if word == "alibi":
        found["folded"] = flex.folded_alibi(setup.each_gpt.heads, length, setup.device)
    return found


def heads(setup: Setup, length: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Random q, k, v (B, H, T, D)."""
    shape = setup.each_gpt
    generator = torch.Generator().manual_seed(0)
    sizes = (3, BATCH, shape.heads, length, shape.dim // shape.heads)
    return tuple(torch.randn(sizes, generator=generator).to(setup.device, dtype))


class Attention:
    """One way to attend, forward and backward."""

    def __init__(self, setup: Setup, length: int, attend: flex.Attend) -> None:
        self.attend, self.backward = attend, setup.device == "cuda"  # FlexAttention has no backward on a CPU
        self.qkv = [x.requires_grad_(self.backward) for x in heads(setup, length, torch.bfloat16)]

    def __call__(self) -> float:
        """Seconds, of all that the device did."""
        self._wait()
        began = time.perf_counter()
        with torch.set_grad_enabled(self.backward):
            y = self.attend(*self.qkv)
        if self.backward:
            y.backward(torch.ones_like(y))
        self._wait()
        return time.perf_counter() - began

    def _wait(self) -> None:
        if self.backward:
            torch.cuda.synchronize()
