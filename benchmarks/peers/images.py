"""ViTs: timm, vit-pytorch, x-transformers."""

from __future__ import annotations

from typing import Any

from torch import nn

from ..models import Images
from . import Peer


def timm_sizes(shape: Images) -> dict[str, Any]:
    return {
        "img_size": shape.size, "patch_size": shape.patch, "in_chans": shape.channels, "num_classes": shape.classes,
        "embed_dim": shape.dim, "depth": shape.depth, "num_heads": shape.heads,
    }  # fmt: skip


def timm_vit(shape: Images) -> nn.Module:
    from timm.models import VisionTransformer

    return VisionTransformer(**timm_sizes(shape))


def timm_eva(shape: Images, **rope: Any) -> nn.Module:
    """timm's host of rotary encodings, without absolute table and layer scale."""
    from timm.models import Eva

    return Eva(
        **timm_sizes(shape), attn_type="rope", qkv_bias=True, init_values=None, class_token=True, global_pool="token",
        use_abs_pos_emb=False, use_rot_pos_emb=True, **rope,
    )  # fmt: skip


def axial(shape: Images) -> nn.Module:
    return timm_eva(shape, rope_grid_indexing="xy", rope_temperature=100.0)


def mixed(shape: Images) -> nn.Module:
    return timm_eva(shape, rope_type="mixed", rope_grid_indexing="xy", rope_temperature=10.0)


def dinov3(shape: Images) -> nn.Module:
    # pairs as DINOv3 has them, and the box stretched in training as our file says
    return timm_eva(shape, rope_type="dinov3", rope_temperature=100.0, rope_rotate_half=True, rope_rescale_coords=2.0)


def vit_pytorch(shape: Images) -> nn.Module:
    """Its two norms around the patches are taken out, and q, k, v get the biases that ours have."""
    from vit_pytorch import ViT

    model = ViT(
        image_size=shape.size, patch_size=shape.patch, channels=shape.channels, num_classes=shape.classes,
        dim=shape.dim, depth=shape.depth, heads=shape.heads, dim_head=shape.dim // shape.heads, mlp_dim=4 * shape.dim,
    )  # fmt: skip
    without_norms(model.to_patch_embedding)
    for attention, _ in model.transformer.layers:
        attention.to_qkv = nn.Linear(shape.dim, 3 * shape.dim)
    return model


def x_transformers(shape: Images) -> nn.Module:
    """It has no class token but registers: one, behind the patches. Its norms around the patches are taken out."""
    from x_transformers import Encoder, ViTransformerWrapper

    layers = Encoder(
        dim=shape.dim, depth=shape.depth, heads=shape.heads, attn_dim_head=shape.dim // shape.heads, attn_flash=True,
        ff_no_bias=True,
    )  # fmt: skip
    model = ViTransformerWrapper(
        image_size=shape.size[0], patch_size=shape.patch, channels=shape.channels, num_classes=shape.classes,
        attn_layers=layers, num_register_tokens=1,
    )  # fmt: skip
    without_norms(model.patch_to_embedding)
    return model


def without_norms(sequence: nn.Sequential) -> None:
    for index, module in enumerate(sequence):
        if type(module).__name__ == "LayerNorm":
            sequence[index] = nn.Identity()


ONE_REGISTER = ("model.bias=false", "model.pool=mean", "model.registers=1")

PEERS = (
    Peer("timm ViT", "learned", timm_vit, ("pos_embed",), goal=0.95),
    Peer("timm Eva, axial", "rope2d", axial, goal=0.90),
    Peer("timm Eva, mixed", "rope2d_mixed", mixed, ("rope.freqs",), goal=0.90),
    Peer("timm Eva, DINOv3", "rope2d_dinov3", dinov3, goal=0.90),
    Peer("vit-pytorch", "learned", vit_pytorch, ("pos_embedding",)),
    Peer("x-transformers ViT", "learned", x_transformers, ("pos_embedding",), ONE_REGISTER),
)
