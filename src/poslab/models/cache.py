"""Keys and values of the tokens already read."""

from __future__ import annotations

from torch import Tensor


class Cache:
    """Grows by what each forward pass appends; `extent` is the length of the whole generation.

    Raises ValueError once more than `extent` tokens are appended.
    """

    def __init__(self, layers: int, extent: int) -> None:
        self.extent = extent
        self.length = 0
        self._layers: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def advance(self, tokens: int) -> int:
        """Make room for `tokens` more; returns where they start."""
        start = self.length
        if start + tokens > self.extent:
            raise ValueError(
                f"The cache was made for {self.extent} tokens, {start + tokens} do not fit: make a new one."
            )
        self.length = start + tokens
        return start

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values (B, H, length, D) of a layer, after k and v (B, H, T, D) have joined."""
        held = self._layers[layer]
        if held is None:  # room for the whole generation, allocated once
            batch, heads, _, width = k.shape
            held = (k.new_empty(batch, heads, self.extent, width), v.new_empty(batch, heads, self.extent, v.shape[-1]))
            self._layers[layer] = held
        start = self.length - k.shape[2]
        held[0][:, :, start : self.length] = k
        held[1][:, :, start : self.length] = v
        return held[0][:, :, : self.length], held[1][:, :, : self.length]
