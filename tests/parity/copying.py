"""Weights of other people's models, copied into ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from poslab.models.transformer import Block


def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Random weights for every parameter, norms around one: nothing hides behind a zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            centre = 1.0 if parameter.ndim == 1 and name.endswith("weight") else 0.0
            parameter.copy_(centre + noise * (0.3 if parameter.ndim == 1 else parameter.shape[-1] ** -0.5))
    return model.eval()


def put(here: Tensor, there: Tensor) -> None:
    """Copy, refusing to broadcast."""
    assert here.shape == there.shape, f"{tuple(here.shape)} is not {tuple(there.shape)}"
    with torch.no_grad():
        here.copy_(there)


def put_linear(here: nn.Linear, weight: Tensor, bias: Tensor | None = None) -> None:
    put(here.weight, weight)
    assert (here.bias is None) == (bias is None)
    if bias is not None:
        put(here.bias, bias)


def put_norm(here: nn.Module, there: nn.Module) -> None:
    """LayerNorm or RMSNorm, whatever the other library calls its epsilon."""
    put(here.weight, there.weight)  # type: ignore[arg-type]
    if getattr(here, "bias", None) is not None:
        put(here.bias, there.bias)  # type: ignore[arg-type]


def put_blocks(blocks: Iterable[nn.Module], norms: Sequence[tuple[nn.Module, nn.Module]]) -> list[Block]:
    """The norms of each block; returns the blocks for the rest."""
    ours = [block for block in blocks if isinstance(block, Block)]
    assert len(ours) == len(norms)
    for block, (attention_norm, mlp_norm) in zip(ours, norms, strict=True):
        put_norm(block.attention_norm, attention_norm)
        put_norm(block.mlp_norm, mlp_norm)
    return ours


def by_head(interleaved: Tensor, heads: int) -> Tensor:
    """(heads, 3, D, ...) rows as GPT-NeoX and Bloom order them -> (3, heads, D, ...) as ours."""
    return interleaved.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)
