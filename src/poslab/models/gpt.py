"""GPT: a causal Transformer over tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import PositionEncoding, Positions, Spec, declared_axes
from .cache import Cache
from .transformer import Transformer


class GPT(nn.Module):
    """Radford et al. 2019 (GPT-2), with the position encoding left open.

    Args:
        vocab: number of token kinds. context: tokens seen in training.
        tie: the output map is the token table transposed.
        trunk: everything else that `Transformer` takes.

    Weights start as in GPT-2: N(0, .02^2), and .02 / sqrt(2 * depth) for maps that end a branch.
    """

    reads = "text"  # the kind of data it is for

    def __init__(
        self,
        *,
        vocab: int,
        context: int,
        pos: Callable[[Spec], PositionEncoding],
        dim: int,
        heads: int,
        depth: int,
        tie: bool = True,
        **trunk: Any,
    ) -> None:
        super().__init__()
        axes = declared_axes(pos)
        if axes not in (None, 1):
            raise TypeError(f"This encoding describes {axes}-D grids, a GPT has 1-D text: choose one for text.")
        self.vocab, self.context, self.tie = vocab, context, tie
        self.tokens = nn.Embedding(vocab, dim)
        self.trunk = Transformer(dim=dim, heads=heads, depth=depth, extent=(context,), causal=True, pos=pos, **trunk)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.init_weights()

    def init_weights(self) -> None:
        if self.tie:  # here, since `to_empty` after a build on the meta device gives each module a weight of its own
            self.head.weight = self.tokens.weight
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.trunk.init_weights(std=0.02, residual_std=0.02 / (2 * len(self.trunk.blocks)) ** 0.5)

    def forward(self, tokens: Tensor, cache: Cache | None = None, last: int | None = None) -> Tensor:
        """Logits (B, T, vocab) of the token after each of `tokens` (B, T) integers.

        With a cache, `tokens` follow those that it holds. `last` gives the logits of the last
        positions only. Raises NotDefined where the encoding does not reach.
        """
        length = tokens.shape[1]
        if cache is None:
            pos, k_pos = Positions.line(length, device=tokens.device), None
        else:
            start = cache.advance(length)
            pos = Positions.line(length, start, cache.extent, tokens.device)
            k_pos = Positions.line(cache.length, 0, cache.extent, tokens.device)
        x = self.trunk(self.tokens(tokens), pos, k_pos, cache)
        return self.head(x if last is None else x[:, -last:])

    @torch.no_grad()
    def generate(
        self,
        prompt: Tensor,
        new: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """`prompt` (B, T) followed by `new` tokens: (B, T + new). Greedy at temperature 0."""
        if temperature < 0 or (top_k is not None and top_k < 1) or prompt.shape[1] < 1 or new < 0:
            raise ValueError(
                "generate wants temperature >= 0, top_k >= 1, new >= 0 and a prompt of at least one token."
            )
        was_training = self.training
        self.eval()
        cache = Cache(len(self.trunk.blocks), prompt.shape[1] + new)
        tokens, step = prompt, prompt
        for _ in range(new):
            logits = self(step, cache, last=1)[:, -1].float()
            if temperature == 0:
                step = logits.argmax(-1, keepdim=True)
            else:
                logits = logits / temperature
                if top_k is not None:
                    kth = logits.topk(min(top_k, self.vocab)).values[:, -1:]
                    logits = logits.masked_fill(logits < kth, float("-inf"))
                step = torch.multinomial(F.softmax(logits, -1), 1, generator=generator)
            tokens = torch.cat((tokens, step), dim=1)
        self.train(was_training)
        return tokens
