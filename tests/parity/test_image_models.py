"""Logits of small random models of timm, reproduced with copied weights, also at other grids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from poslab.models import ViT
from poslab.positions.learned import Learned
from poslab.positions.rope2d import RoPE2d
from poslab.positions.rope2d_mixed import RoPE2dMixed

from .copying import put, put_blocks, put_linear, put_norm, randomise

timm = pytest.importorskip("timm")

DIM, HEADS, DEPTH, CLASSES, PATCH = 24, 3, 2, 5, 4
SIZE, OTHER_SIZES = (12, 16), [(12, 16), (20, 12), (8, 24), (16, 12)]


def same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def vit(**options: Any) -> ViT:
    """Ours, with parameters that are wrong until they are copied."""
    model = ViT(
        image_size=SIZE, patch_size=PATCH, channels=3, classes=CLASSES, dim=DIM, heads=HEADS, depth=DEPTH,
        pool="class", norm_eps=1e-6, **options,
    )  # fmt: skip
    for parameter in model.parameters():
        nn.init.constant_(parameter, float("nan"))
    return model.eval()


def copy_trunk(ours: ViT, theirs: Any, qkv_bias: Iterable[Tensor]) -> None:
    put_linear(ours.patches, theirs.patch_embed.proj.weight.flatten(1), theirs.patch_embed.proj.bias)
    blocks = put_blocks(ours.trunk.blocks, [(x.norm1, x.norm2) for x in theirs.blocks])
    for block, layer, bias in zip(blocks, theirs.blocks, qkv_bias, strict=True):
        put_linear(block.attention.qkv, layer.attn.qkv.weight, bias)
        put_linear(block.attention.out, layer.attn.proj.weight, layer.attn.proj.bias)
        put_linear(block.mlp.up, layer.mlp.fc1.weight, layer.mlp.fc1.bias)
        put_linear(block.mlp.down, layer.mlp.fc2.weight, layer.mlp.fc2.bias)
    put_norm(ours.trunk.norm, theirs.norm)
    put_linear(ours.head, theirs.head.weight, theirs.head.bias)


def compare(ours: ViT, theirs: nn.Module) -> None:
    for height, width in OTHER_SIZES:
        images = torch.randn(2, 3, height, width)
        same(ours(images), theirs(images))


@pytest.mark.parametrize("registers", [0, 2])
def test_vit_with_a_learned_table(registers: int) -> None:
    """The table is resampled to other grids, bicubic with antialias; the class token's own row is not."""
    theirs: Any = randomise(
        timm.models.VisionTransformer(
            img_size=SIZE, patch_size=PATCH, num_classes=CLASSES, embed_dim=DIM, depth=DEPTH, num_heads=HEADS,
            dynamic_img_size=True, reg_tokens=registers, no_embed_class=registers > 0,
        )
    )  # fmt: skip
    ours = vit(pos=Learned, registers=registers)
    copy_trunk(ours, theirs, [block.attn.qkv.bias for block in theirs.blocks])
    if registers:
        put(ours.prefix_tokens, torch.cat((theirs.cls_token[0], theirs.reg_token[0])))
        table = theirs.pos_embed[0]
    else:  # their class token has a row of the table: one sum, in ours one parameter
        put(ours.prefix_tokens, theirs.cls_token[0] + theirs.pos_embed[0, :1])
        table = theirs.pos_embed[0, 1:]
    put(ours.trunk.encoding.table, table.unflatten(0, ours.grid))
    compare(ours, theirs)


def eva(**options: Any) -> Any:
    """timm's host of RoPE-ViT, without absolute table and layer scale."""
    model: Any = randomise(
        timm.models.Eva(
            img_size=SIZE, patch_size=PATCH, num_classes=CLASSES, embed_dim=DIM, depth=DEPTH, num_heads=HEADS,
            attn_type="rope", qkv_bias=True, init_values=None, class_token=True, global_pool="token",
            use_abs_pos_emb=False, use_rot_pos_emb=True, dynamic_img_size=True, **options,
        )
    )  # fmt: skip
    return model


def copy_eva(ours: ViT, theirs: Any) -> None:
    copy_trunk(ours, theirs, [block.attn.qkv.bias for block in theirs.blocks])
    put(ours.prefix_tokens, theirs.cls_token[0])


@pytest.mark.parametrize("indexing, order", [("xy", "xy"), ("ij", "yx")], ids=["rope-vit", "eva-02"])
@pytest.mark.parametrize("theta", [100.0, 10_000.0])
def test_axial_rope(indexing: str, order: Any, theta: float) -> None:
    theirs = eva(rope_grid_indexing=indexing, rope_temperature=theta)
    ours = vit(pos=lambda spec: RoPE2d(spec, theta=theta, order=order))
    copy_eva(ours, theirs)
    compare(ours, theirs)


def test_mixed_rope() -> None:
    theirs = eva(rope_grid_indexing="xy", rope_temperature=10.0, rope_type="mixed")
    ours = vit(pos=RoPE2dMixed)
    copy_eva(ours, theirs)
    for layer, encoding in enumerate(ours.trunk.position):
        put(encoding.frequency, theirs.rope.freqs[:, layer].view(2, HEADS, -1))
    compare(ours, theirs)


def test_mixed_rope_starts_as_theirs() -> None:
    """The same magnitudes, and the second half of the pairs at a right angle to the first."""
    theirs = timm.models.Eva(
        img_size=SIZE, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, attn_type="rope",
        use_abs_pos_emb=False, use_rot_pos_emb=True, rope_type="mixed", rope_temperature=10.0,
    ).rope.freqs[:, 0].view(2, HEADS, -1)  # fmt: skip
    ours = ViT(
        image_size=SIZE, patch_size=PATCH, channels=3, classes=CLASSES, dim=DIM, heads=HEADS, depth=DEPTH,
        pos=RoPE2dMixed,
    ).trunk.encoding.frequency  # fmt: skip
    for frequency in (theirs, ours):
        first, second = frequency.chunk(2, dim=-1)
        same((first * second).sum(0), torch.zeros(HEADS, first.shape[-1]))
        same(frequency.norm(dim=0), ours.norm(dim=0))
