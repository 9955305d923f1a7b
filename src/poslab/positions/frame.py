"""The seam: an encoding bound to the positions of one forward pass. Attention sees nothing else."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from . import strips
from .base import NotDefined, PositionEncoding, Positions
from .offset_bias import OffsetBias
from .pair_bias import PairBias

STRIP_ELEMENTS = 1 << 24  # scores that evaluation may hold at once: 64 MiB in float32
MANY_PAIRS = 1 << 17  # of query and key, from which on it is faster to make a bias again than to keep it


class Frame:
    """Rotates, biases and attends for one encoding in one forward pass.

    `prefix` tokens (class token, registers) stand in front of the `q_pos` tokens and have no
    position: rotation leaves them bit-exact (or as wide as the others, by `rotate_prefix`), their
    scores get no bias. A key is visible where k_pos <= q_pos if `causal`. The kernel follows from
    what the encoding overrides:

        embed, rotate          fused SDPA
        bias without gradient  fused SDPA with a (1, H, Q, K) mask, made once
        learned bias           SDPA's math path with that mask, on a CPU strips.py
        content_bias           SDPA's math path with a mask a layer, on a CPU strips.py
        OffsetBias on a line   on a CPU strips.py with Q + K - 1 numbers a head, elsewhere as any bias
        PairBias on a line     on a CPU strips.py, which makes it as it goes, elsewhere as any bias

    Without gradients, masks too large to hold are made in strips of queries, `strip` rows at a
    time: memory H * strip * K.
    """

    def __init__(
        self,
        encoding: PositionEncoding,
        q_pos: Positions,
        k_pos: Positions | None = None,
        *,
        prefix: int = 0,
        dropout: float = 0.0,
        strip: int | None = None,
    ) -> None:
        spec = encoding.spec
        if prefix and (spec.causal or k_pos is not None):
            raise ValueError("Prefix tokens need a bidirectional model without a cache: set prefix=0.")
        if not encoding.unbounded:
            self._check_extent(encoding, q_pos)
        self.encoding, self.causal, self.prefix, self.dropout, self.strip = (
            encoding, spec.causal, prefix, dropout, strip)  # fmt: skip
        self.q_pos = q_pos
        self.k_pos = q_pos if k_pos is None else k_pos
        self.scale = spec.head_dim**-0.5 if encoding.scale is None else encoding.scale
        self._line: Tensor | None = None
        self._bias: Tensor | None = None
        self._mask: Tensor | None = None

    @staticmethod
    def _check_extent(encoding: PositionEncoding, pos: Positions) -> None:
        if any(here > trained for here, trained in zip(pos.extent, encoding.spec.extent, strict=True)):
            here, trained = ("x".join(map(str, e)) for e in (pos.extent, encoding.spec.extent))
            raise NotDefined(
                f"{encoding.name} has positions up to {trained}, the input reaches {here}: "
                f"shorten the input, train at {here}, or choose an encoding that reaches further."
            )

    def rotate(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v (B, H, prefix + Q, D) turned at their positions."""
        if not self.encoding.overrides("rotate"):
            return q, k, v
        if not self.prefix:
            return self.encoding.rotate(q, k, v, self.q_pos)
        p = self.prefix
        values = v[:, :, p:]
        turned_q, turned_k, turned_v = self.encoding.rotate(q[:, :, p:], k[:, :, p:], values, self.q_pos)
        first_q, first_k = self.encoding.rotate_prefix(q[:, :, :p], k[:, :, :p])
        q, k = torch.cat((first_q, turned_q), dim=2), torch.cat((first_k, turned_k), dim=2)
        return q, k, v if turned_v is values else torch.cat((v[:, :, :p], turned_v), dim=2)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """softmax(scale * q.k + biases) v: (B, H, prefix + Q, D)."""
        width = v.shape[-1]
        if q.shape[-1] != width:  # the fused CPU kernel wants one width: pad v and cut y
            y = self._attend(q, k, F.pad(v, (0, q.shape[-1] - width)))[..., :width]
        else:
            y = self._attend(q, k, v)
        if not self.encoding.overrides("unrotate"):
            return y
        p = self.prefix
        turned = self.encoding.unrotate(y[:, :, p:], self.q_pos)
        return torch.cat((y[:, :, :p], turned), dim=2) if p else turned

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.strip is None and strips.fits(q, self.dropout):
            bias = self._bias_for_strips(q, k)
            if bias is not None:
                learned = () if isinstance(bias, Tensor) else tuple(self.encoding.parameters())
                return strips.attend(q, k, v, bias, self.scale, self._shift, learned)
        rows = q.shape[-2]
        strip = self._strip_rows(q, k)
        if strip is None:  # not a loop of one turn, which a compiler would tie to this number of rows
            return self._attend_rows(q, k, v, 0, rows)
        # rows of the prefix alone would be a strip without positions: the first strip holds them and one more
        strip = max(strip, self.prefix + 1)
        firsts = range(0, rows, strip)
        return torch.cat([self._attend_rows(q, k, v, first, min(first + strip, rows)) for first in firsts], dim=2)

    @property
    def _on_lines(self) -> bool:
        return self.q_pos.start is not None and self.k_pos.start is not None

    @property
    def _shift(self) -> int | None:
        """How much further than its own number a query sees; None: everything. Positions are on lines."""
        return self.q_pos.start - self.k_pos.start if self.causal else None  # type: ignore[operator]

    def _bias_for_strips(self, q: Tensor, k: Tensor) -> strips.Bias | None:
        """What `strips.attend` adds, or None where another kernel does better."""
        encoding = self.encoding
        alone = self._on_lines and not self.prefix
        if isinstance(encoding, OffsetBias) and alone:
            if self._line is None:
                self._line = encoding.line(self.q_pos, self.k_pos).to(q.dtype)
            # a constant of one strip: the fused kernel does both ways at once
            return self._line if self._line.requires_grad or len(self.q_pos) > strips.FORWARD_ROWS else None
        biased = encoding.overrides("bias") or encoding.overrides("content_bias")
        if not biased or not torch.is_grad_enabled() or (self.causal and not self._on_lines):
            return None
        if isinstance(encoding, PairBias) and alone and len(self.q_pos) * len(self.k_pos) > MANY_PAIRS:
            return self._strip_of_pairs
        bias = self._shared_bias(self.q_pos, self.prefix, keep=True)
        content = self._content_bias(q, k, self.q_pos, self.prefix)
        if content is not None:
            bias = content if bias is None else bias + content
        if bias is None or not (bias.requires_grad or self.causal):
            return None
        return bias.to(q.dtype)

    def _strip_of_pairs(self, first: int, last: int, keys: int) -> Tensor:
        bias = self.encoding.bias(self.q_pos[first:last], self.k_pos[:keys])
        assert bias is not None
        return bias[None]

    def _strip_rows(self, q: Tensor, k: Tensor) -> int | None:
        """Query rows a strip, or None for all at once."""
        if self.strip is not None:
            return self.strip
        batch, heads, rows, _ = q.shape
        content = self.encoding.overrides("content_bias")
        if torch.is_grad_enabled() or not (content or self.encoding.overrides("bias")):
            return None
        per_row = heads * k.shape[-2] * (batch if content else 1)
        return None if rows * per_row <= STRIP_ELEMENTS else max(1, STRIP_ELEMENTS // per_row)

    def _attend_rows(self, q: Tensor, k: Tensor, v: Tensor, first: int, last: int) -> Tensor:
        """Attention of the query rows first ... last - 1."""
        whole = last - first == q.shape[-2]
        content = self.encoding.overrides("content_bias")
        if not (content or self.encoding.overrides("bias")):
            aligned = whole and self.q_pos is self.k_pos and self.q_pos.start is not None
            if aligned or not self.causal:
                # is_causal is aligned at the top left: right only where queries and keys are the same tokens, in order
                return F.scaled_dot_product_attention(
                    q[:, :, first:last], k, v, None, self.dropout, is_causal=self.causal, scale=self.scale
                )
        mask = self._mask_rows(q, k, first, last)
        return F.scaled_dot_product_attention(q[:, :, first:last], k, v, mask, self.dropout, scale=self.scale)

    def weights(self, q: Tensor, k: Tensor, first: int, last: int) -> Tensor:
        """(B, H, last - first, prefix + K) weights of the values in `attend`, for the query rows first ... last - 1.

        Rows of the prefix alone have no positions: `last` is beyond them.
        """
        scores = self.scale * q[:, :, first:last] @ k.mT
        mask = self._mask_rows(q, k, first, last)
        if mask is not None:
            scores = scores + mask if mask.is_floating_point() else scores.masked_fill(~mask, float("-inf"))
        return scores.softmax(-1)

    def _mask_rows(self, q: Tensor, k: Tensor, first: int, last: int) -> Tensor | None:
        """What is added to the scaled scores of the query rows first ... last - 1, or a boolean mask of the visible."""
        whole = last - first == q.shape[-2]
        q = q[:, :, first:last]
        p = self.prefix
        skipped = max(min(p, last) - first, 0)  # rows of this strip that have no position
        positions = self.q_pos if whole else self.q_pos[max(first - p, 0) : max(last - p, 0)]
        mask = self._shared_mask(positions, skipped, keep=whole)
        content = self._content_bias(q, k, positions, skipped)
        if content is not None:
            mask = content if mask is None else mask + content
        return mask.to(q.dtype) if mask is not None and mask.is_floating_point() else mask

    def _content_bias(self, q: Tensor, k: Tensor, positions: Positions, skipped: int) -> Tensor | None:
        """(B, H, Q, K) of query rows q, of which `skipped` stand in front of `positions`."""
        if not self.encoding.overrides("content_bias"):
            return None
        content = self.encoding.content_bias(q[:, :, skipped:], k[:, :, self.prefix :], positions, self.k_pos)
        return None if content is None else self._pad(content, skipped)

    def _shared_bias(self, positions: Positions, skipped: int, keep: bool) -> Tensor | None:
        """The part that all layers share: (1, H, Q, K)."""
        if keep and self._bias is not None:
            return self._bias
        bias = self.encoding.bias(positions, self.k_pos)
        if bias is not None:
            bias = self._pad(bias, skipped)[None]
        if keep:
            self._bias = bias
        return bias

    def _shared_mask(self, positions: Positions, skipped: int, keep: bool) -> Tensor | None:
        """`_shared_bias` with -inf in the future, or a (Q, K) boolean mask."""
        if not self.causal:
            return self._shared_bias(positions, skipped, keep)
        if keep and self._mask is not None:
            return self._mask
        mask = self._shared_bias(positions, skipped, keep=False)
        visible = self.k_pos.axis(0)[None, :] <= positions.axis(0)[:, None]
        if mask is not None:
            mask = mask.masked_fill(~visible, float("-inf"))
        elif self.encoding.overrides("content_bias"):
            mask = torch.zeros(visible.shape, device=visible.device).masked_fill(~visible, float("-inf"))
        else:
            mask = visible
        if keep:
            self._mask = mask
        return mask

    def _pad(self, bias: Tensor, skipped: int) -> Tensor:
        return F.pad(bias, (self.prefix, 0, skipped, 0)) if self.prefix else bias
