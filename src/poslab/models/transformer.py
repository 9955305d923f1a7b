"""The trunk that GPT and ViT share: pre-norm blocks around attention in a Frame.

Shapes as in `positions/base.py`. The trunk owns the encodings (`position.0.*`, or more where layers have their own)
and lends them to its blocks, so that a block has no parameter of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..positions import Frame, PositionEncoding, Positions, Spec, build_layers
from .cache import Cache

Norm = Literal["layernorm", "rmsnorm"]
Activation = Literal["gelu", "gelu_tanh", "relu", "swiglu"]


def make_norm(kind: Norm, dim: int, eps: float, bias: bool = True) -> nn.Module:
    """Normalisation over the last `dim` channels; RMSNorm has no bias."""
    if kind == "layernorm":
        return nn.LayerNorm(dim, eps=eps, bias=bias)
    if kind == "rmsnorm":
        return nn.RMSNorm(dim, eps=eps)
    raise ValueError(f"norm={kind} is not one of layernorm, rmsnorm.")


class Attention(nn.Module):
    """Multi-head self-attention; where tokens are is the Frame's business."""

    def __init__(self, dim: int, heads: int, bias: bool, norm: Norm | None, eps: float, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=bias)
        self.q_norm = make_norm(norm, dim // heads, eps, bias) if norm else nn.Identity()
        self.k_norm = make_norm(norm, dim // heads, eps, bias) if norm else nn.Identity()
        self.out = nn.Linear(dim, dim, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def project(self, x: Tensor, frame: Frame) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v (B, H, T, D) of x (B, T, C), turned at their positions."""
        # three views and not one tensor of three: their gradients are joined by one copy, in order
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, dim=-1))
        return frame.rotate(self.q_norm(q), self.k_norm(k), v)

    def forward(self, x: Tensor, frame: Frame, cache: Cache | None, layer: int) -> Tensor:
        q, k, v = self.project(x, frame)
        if cache is not None:
            k, v = cache.append(layer, k, v)
        y = frame.attend(q, k, v)
        return self.dropout(self.out(y.transpose(1, 2).flatten(2)))


class MLP(nn.Module):
    """Two linear maps around an activation, or three where the activation is gated (SwiGLU)."""

    def __init__(self, dim: int, hidden: int, activation: Activation, bias: bool, dropout: float) -> None:
        super().__init__()
        if activation not in ("gelu", "gelu_tanh", "relu", "swiglu"):
            raise ValueError(f"activation={activation} is not one of gelu, gelu_tanh, relu, swiglu.")
        self.activation = activation
        self.up = nn.Linear(dim, 2 * hidden if activation == "swiglu" else hidden, bias=bias)
        self.down = nn.Linear(hidden, dim, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(x)
        if self.activation == "swiglu":
            gate, x = x.chunk(2, dim=-1)
            x = F.silu(gate) * x
        elif self.activation == "relu":
            x = F.relu(x)
        else:
            x = F.gelu(x, approximate="tanh" if self.activation == "gelu_tanh" else "none")
        return self.dropout(self.down(x))


class Block(nn.Module):
    """x += attention(norm(x)); x += mlp(norm(x)). Stochastic depth drops a branch for whole samples."""

    def __init__(self, attention: Attention, mlp: MLP, norms: tuple[nn.Module, nn.Module], drop_path: float) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = norms
        self.attention, self.mlp = attention, mlp
        self.drop_path = drop_path

    def forward(self, x: Tensor, frame: Frame, cache: Cache | None = None, layer: int = 0) -> Tensor:
        x = x + self._keep(self.attention(self.attention_norm(x), frame, cache, layer))
        return x + self._keep(self.mlp(self.mlp_norm(x)))

    def _keep(self, branch: Tensor) -> Tensor:
        if not self.training or self.drop_path == 0:
            return branch
        kept = torch.rand(branch.shape[0], 1, 1, device=branch.device) >= self.drop_path
        return branch * kept / (1 - self.drop_path)


class Transformer(nn.Module):
    """Position vectors in, `depth` blocks, a last norm.

    Args:
        extent: positions seen in training, (T,) or (rows, columns).
        pos: builds the encoding from a Spec.
        qk_norm: normalise q and k in each head before they are rotated.
        drop_path: stochastic depth of the last block; earlier ones less, linearly.
    """

    def __init__(
        self,
        *,
        dim: int,
        heads: int,
        depth: int,
        extent: tuple[int, ...],
        causal: bool,
        pos: Callable[[Spec], PositionEncoding],
        mlp_ratio: float = 4.0,
        activation: Activation = "gelu",
        norm: Norm = "layernorm",
        norm_eps: float = 1e-5,
        bias: bool = True,
        qk_norm: bool = False,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> None:
        super().__init__()
        for name, value in {"dropout": dropout, "attention_dropout": attention_dropout, "drop_path": drop_path}.items():
            if not 0 <= value < 1:
                raise ValueError(f"{name}={value} is a probability below 1.")
        if depth < 1:
            raise ValueError(f"depth={depth}: a Transformer has at least one block.")
        self.attention_dropout = attention_dropout
        self.strip: int | None = None  # query rows a strip in evaluation; None: as memory asks
        by_layer = list(build_layers(pos, Spec(dim, heads, extent, causal, 0, depth)))
        distinct = list(dict.fromkeys(by_layer))
        self.position = nn.ModuleList(distinct)
        self.position_of_layer = [distinct.index(encoding) for encoding in by_layer]
        self.blocks = nn.ModuleList(
            Block(
                Attention(dim, heads, bias, norm if qk_norm else None, norm_eps, dropout),
                MLP(dim, int(dim * mlp_ratio), activation, bias, dropout),
                (make_norm(norm, dim, norm_eps, bias), make_norm(norm, dim, norm_eps, bias)),
                drop_path * layer / max(depth - 1, 1),
            )
            for layer in range(depth)
        )
        self.norm = make_norm(norm, dim, norm_eps, bias)
        self.dropout = nn.Dropout(dropout)

    @property
    def encoding(self) -> PositionEncoding:
        """The first layer's encoding, which adds to the tokens."""
        return self.position[0]  # type: ignore[return-value]

    def forward(
        self,
        x: Tensor,
        pos: Positions,
        k_pos: Positions | None = None,
        cache: Cache | None = None,
        prefix: int = 0,
    ) -> Tensor:
        """x (B, prefix + T, C) at positions `pos` -> (B, prefix + T, C).

        `k_pos` are the positions of all keys where a cache holds more than this pass brings.
        Raises NotDefined where the encoding has no value at these positions.
        """
        dropout = self.attention_dropout if self.training else 0.0
        frames = [
            Frame(encoding, pos, k_pos, prefix=prefix, dropout=dropout, strip=self.strip)  # type: ignore[arg-type]
            for encoding in self.position
        ]
        vectors = self.encoding.embed(pos)
        if vectors is not None:
            vectors = vectors.to(x.dtype)
            x = x + (F.pad(vectors, (0, 0, prefix, 0)) if prefix else vectors)
        x = self.dropout(x)
        for layer, block in enumerate(self.blocks):
            x = block(x, frames[self.position_of_layer[layer]], cache, layer)
        return self.norm(x)

    def init_weights(self, std: float | None = None, residual_std: float | None = None) -> None:
        """Linear maps ~ N(0, std^2), those that end a branch ~ N(0, residual_std^2); or Xavier uniform without `std`.

        Biases start at zero, encodings reset themselves.
        """
        for module in self.modules():
            if isinstance(module, (Attention, MLP)):
                opens, ends = (module.qkv, module.out) if isinstance(module, Attention) else (module.up, module.down)
                for linear, deviation in ((opens, std), (ends, residual_std or std)):
                    if deviation is not None:
                        nn.init.normal_(linear.weight, std=deviation)
                    else:  # q, k and v are three maps that share a matrix
                        for part in linear.weight.chunk(3 if linear is getattr(module, "qkv", None) else 1):
                            nn.init.xavier_uniform_(part)
                    if linear.bias is not None:
                        nn.init.zeros_(linear.bias)
            elif isinstance(module, (nn.LayerNorm, nn.RMSNorm, PositionEncoding)):
                module.reset_parameters()
