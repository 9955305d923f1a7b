"""Biases from positions alone: reference arrays, plain loops, and other people's layers and models."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poslab.models import GPT, ViT
from poslab.models.transformer import Attention
from poslab.positions import Frame, PositionEncoding, Positions, Spec
from poslab.positions.alibi import ALiBi, ALiBi2d
from poslab.positions.fire import FIRE, FIRE2d
from poslab.positions.kerple import Kerple
from poslab.positions.lookhere import LookHere, deal
from poslab.positions.ops import from_grid_offsets, from_grid_offsets_reference
from poslab.positions.sandwich import Sandwich
from poslab.positions.swin import Swin
from poslab.positions.swin_v2 import SwinV2

from ..reference import arrays, legend
from .copying import put, put_blocks, put_linear, put_norm, randomise
from .test_arrays import close
from .test_image_models import copy_trunk
from .test_text_models import TOKENS, VOCAB, gpt, same

REFERENCE = arrays("bias")
GRID = Positions.grid(3, 4)
PATCHES = Spec(dim=12, heads=3, extent=(3, 4), causal=False)
Form = Literal["log", "power"]
Fov = Literal[180, 90, 45]


def text(heads: int = 2, extent: int = 12) -> Spec:
    return Spec(dim=4 * heads, heads=heads, extent=(extent,), causal=True)


def wild(encoding: PositionEncoding) -> Any:
    """Random parameters."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return encoding


def test_every_array_has_a_legend() -> None:
    names = [name.strip() for key in legend("bias") for name in key.split(",")]
    for array in REFERENCE:
        assert any(array == name or (name[-1] == "*" and array.startswith(name[:-1])) for name in names), array


# ---- alibi ----


def test_alibi2d_by_hand() -> None:
    bias = ALiBi2d(Spec(8, 2, (3, 4), False)).bias(GRID, GRID)
    close(bias[:, 0, 11], torch.tensor([-0.225347, -0.014084]), atol=5e-7)
    close(bias, bias.mT, atol=0)


@pytest.mark.parametrize("heads", [3, 4, 6])
def test_mpt(heads: int) -> None:
    """The model that biases by the key's position alone, which softmax cannot tell from the distance."""
    transformers = pytest.importorskip("transformers")
    config = transformers.MptConfig(
        d_model=24, n_heads=heads, n_layers=2, max_seq_len=64, vocab_size=VOCAB, attn_implementation="eager"
    )
    theirs = randomise(transformers.MptForCausalLM(config))
    ours: GPT = gpt(pos=ALiBi, heads=heads, bias=False)
    put(ours.tokens.weight, theirs.transformer.wte.weight)
    layers = theirs.transformer.blocks
    for block, layer in zip(put_blocks(ours.trunk.blocks, [(x.norm_1, x.norm_2) for x in layers]), layers):
        put_linear(block.attention.qkv, layer.attn.Wqkv.weight)
        put_linear(block.attention.out, layer.attn.out_proj.weight)
        put_linear(block.mlp.up, layer.ffn.up_proj.weight)
        put_linear(block.mlp.down, layer.ffn.down_proj.weight)
    put_norm(ours.trunk.norm, theirs.transformer.norm_f)
    same(ours(TOKENS), theirs(TOKENS).logits)


# ---- kerple ----


@pytest.mark.parametrize("form", ["log", "power"])
def test_kerple_arrays(form: Form) -> None:
    kerple = Kerple(text(), form=form)
    kerple.set(REFERENCE["kerple_p"].float(), REFERENCE["kerple_a"].float())
    pos = Positions.line(6)
    close(kerple.bias(pos, pos).tril(), REFERENCE[f"kerple_{form}"])


def test_kerple_is_alibi_where_the_power_is_one() -> None:
    kerple, alibi, pos = Kerple(text(4), form="power"), ALiBi(text(4)), Positions.line(9)
    kerple.set(torch.ones(4), torch.tensor([2.0**-k for k in (2, 4, 6, 8)]))
    close(kerple.bias(pos, pos), alibi.bias(pos, pos))


@pytest.mark.parametrize("form", ["log", "power"])
def test_kerple_starts_as_the_authors_do(form: Form) -> None:
    """Biases at n = 1 and far away give p and a back: uniform on (0, 2) and (0, 1)."""
    kerple = Kerple(Spec(4000, 4000, (8,), True), form=form)
    one, two = -kerple.bias(Positions.line(1, 2), Positions.line(2)).detach().double()[:, 0].flip(1).T
    if form == "power":
        a, p = one, (two / one).log2()
    else:
        a = F.softplus(kerple.a_raw.detach().double())
        p = one / a.log1p()
        close(two, p * (2 * a).log1p(), atol=1e-5)
    for start, end in ((p, 2), (a, 1)):
        assert start.min() > 0 and start.max() <= end
        assert abs(float(start.mean()) - end / 2) < 0.02 * end and abs(float(start.std()) - end / 12**0.5) < 0.02 * end


@pytest.mark.parametrize("form", ["log", "power"])
def test_kerple_stays_in_bounds(form: Form) -> None:
    """Whatever is learned, far keys lose, by a power of at most 2, and every gradient is finite, at distance 0 too."""
    kerple = Kerple(text(), form=form)
    with torch.no_grad():
        kerple.p_raw.copy_(torch.tensor([-30.0, 30.0]))
        kerple.a_raw.copy_(torch.tensor([-30.0, 3.0]))
    pos = Positions.line(8)
    bias = kerple.bias(pos, pos)
    bias.sum().backward()
    assert (bias.detach().diff(dim=2)[:, -1] >= 0).all() and bias.isfinite().all()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in kerple.parameters())
    if form == "power":
        close(bias[1, 7, 0] / bias[1, 1, 0], torch.tensor(49.0), atol=1e-3)


# ---- sandwich ----


@pytest.mark.parametrize("heads, width", [(3, 128), (2, 8)])
def test_sandwich_arrays(heads: int, width: int) -> None:
    expected = REFERENCE[f"sandwich_{heads}_heads_{width}"]
    sandwich = Sandwich(text(heads), width=width)
    close(sandwich.bias(Positions.line(1, 40), Positions.line(41))[:, 0].flip(1), expected, atol=1e-5)
    close(sandwich.bias(Positions.line(1), Positions.line(41))[:, 0], expected, atol=1e-5)  # symmetric


def test_sandwich_is_the_product_of_sines() -> None:
    """Two sinusoidal vectors without their first channels: theta^0 = 1 is not one of the frequencies."""
    t = torch.arange(30, dtype=torch.float64)[:, None] * 10_000.0 ** (-2 * torch.arange(1, 65) / 128)
    vectors = torch.cat((t.sin(), t.cos()), dim=1)
    pos = Positions.line(30)
    close(Sandwich(text(8)).bias(pos, pos)[3], (vectors @ vectors.T - 64) / 4, atol=1e-5)


# ---- fire ----


def test_fire_input() -> None:
    fire, pos = FIRE(text(extent=12)), Positions.line(6)  # a quarter of 12 is the threshold of the array, 3
    close(fire.distance(pos, pos).tril(), REFERENCE["fire_input"], atol=5e-6)


@pytest.mark.parametrize("queries, start", [(9, 0), (3, 6), (1, 8)])
def test_fire_is_a_double_loop(queries: int, start: int) -> None:
    fire = wild(FIRE(text(3, 20), threshold=0.2, hidden=5)).requires_grad_(False)
    nn.init.constant_(fire.c, -0.3)
    nn.init.constant_(fire.multiplier, -1.1)
    c, tau = 0.3, 1.1 * 0.2 * 20  # 4.4: queries on both sides of it
    bias = fire.bias(Positions.line(queries, start), Positions.line(9))
    for i, j in itertools.product(range(queries), range(9)):
        x = math.log(c * abs(start + i - j) + 1) / (math.log(c * max(start + i, tau) + 1) + 1e-6)
        hidden = [max(0.0, float(w) * x + float(b)) for w, b in zip(fire.first.weight[:, 0], fire.first.bias)]
        for h in range(3):
            expected = sum(float(w) * z for w, z in zip(fire.second.weight[h], hidden))
            assert math.isclose(float(bias[h, i, j]), expected, rel_tol=1e-4, abs_tol=1e-5)


def test_fire_learns_from_every_cell_without_nan() -> None:
    """Keys ahead of the query are masked, and a masked NaN would still reach the parameters."""
    fire, pos = FIRE(text()), Positions.line(12)
    fire.bias(pos, pos).masked_fill(torch.ones(12, 12).triu(1).bool(), 0).sum().backward()
    for name, parameter in fire.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name


def test_fire_adopts_its_threshold() -> None:
    """Fine-tuned on longer text, it starts as the function that it was."""
    short = wild(FIRE(text(extent=12)))
    long = FIRE(text(extent=48), threshold=0.5)
    long.adopt(short)
    pos = Positions.line(48)
    close(long.bias(pos, pos), short.bias(pos, pos).detach())


def test_fire_is_shared_on_request() -> None:
    for shared, count in ((False, 2), (True, 1)):
        model = gpt(pos=lambda spec, shared=shared: FIRE(spec, shared=shared))
        assert len(model.trunk.position) == count


def test_fire_refuses_to_look_ahead() -> None:
    with pytest.raises(ValueError, match="use pos=fire2d"):
        FIRE(Spec(8, 2, (12,), False))


def test_fire2d_is_a_double_loop() -> None:
    fire = wild(FIRE2d(PATCHES, hidden=5)).requires_grad_(False)
    c = abs(float(fire.c))
    for pos in (GRID, Positions.grid(5, 6)):
        found = fire.bias(pos, pos)
        for q, k in itertools.product(range(len(pos)), repeat=2):
            expected = torch.zeros(3)
            for axis, trained in enumerate((3, 4)):
                n = abs(int(pos.coordinates[q, axis] - pos.coordinates[k, axis]))
                x = math.log(c * n + 1) / (math.log(c * trained + 1) + 1e-6)
                hidden = torch.relu(fire.first.weight[:, 0] * x + fire.first.bias)
                expected += (fire.second.weight * hidden).sum(1)
            close(found[:, q, k], expected, atol=1e-5)


# ---- swin ----


def swin_with(table: Tensor, extent: tuple[int, int] = (3, 4), **keys: Any) -> Swin:
    """From a flat table ((2 rows - 1)(2 columns - 1), H), as other people store it."""
    swin = Swin(Spec(4 * table.shape[1], table.shape[1], extent, False), **keys)
    put(swin.table, table.T.unflatten(1, swin.table.shape[1:]))
    return swin


def test_swin_index() -> None:
    """A table that holds its own index is read as that index."""
    bias = swin_with(torch.arange(35.0)[:, None]).bias(GRID, GRID)[0].long()
    assert torch.equal(bias, REFERENCE["swin_index"])
    assert bias[0, 11] == 0 and bias[11, 0] == 34 and (bias.diagonal() == 17).all()


def test_swin_at_the_trained_grid_is_its_table() -> None:
    for keys in ({}, {"resample": "bilinear"}, {"antialias": True}, {"resample": "none"}):
        swin = Swin(PATCHES, **keys)
        bias = swin.bias(GRID, GRID)
        for q, k in itertools.product(range(12), repeat=2):
            assert torch.equal(bias[:, q, k], swin.table[:, q // 4 - k // 4 + 2, q % 4 - k % 4 + 3])


@pytest.mark.parametrize("grid", [(3, 4), (2, 7), (6, 1)])
def test_swin_reads_coordinates(grid: tuple[int, int]) -> None:
    """Patches listed one by one, in any order, and a part of them as queries."""
    swin, pos = wild(Swin(PATCHES)), Positions.grid(*grid)
    order = torch.randperm(len(pos))
    listed = Positions(pos.coordinates[order], grid)
    whole = swin.bias(pos, pos)
    assert torch.equal(swin.bias(listed[1:4], listed), whole[:, order[1:4]][:, :, order])


@pytest.mark.parametrize("grid", [(2, 4), (3, 2), (1, 1)])
def test_swin_without_resampling_reads_near_offsets(grid: tuple[int, int]) -> None:
    swin, pos = wild(Swin(PATCHES, resample="none")), Positions.grid(*grid)
    inside = [4 * y + x for y in range(grid[0]) for x in range(grid[1])]
    assert torch.equal(swin.bias(pos, pos), swin.bias(GRID, GRID)[:, inside][:, :, inside])


def test_swin_adopts_by_resampling() -> None:
    small = wild(Swin(PATCHES))
    large = Swin(Spec(12, 3, (5, 6), False))
    large.adopt(small)
    pos = Positions.grid(5, 6)
    close(large.bias(pos, pos), small.bias(pos, pos).detach())


@pytest.mark.parametrize("grid", [(6, 7), (3, 3), (2, 5)])
@pytest.mark.parametrize("antialias", [False, True])
def test_swin_resamples_as_timm(grid: tuple[int, int], antialias: bool) -> None:
    """Their two bicubic forms; both know square tables only, and one of them square results."""
    rel = pytest.importorskip("timm.layers.pos_embed_rel")
    grid = (max(grid),) * 2 if antialias else grid
    table, count = torch.randn(49, 3), (2 * grid[0] - 1) * (2 * grid[1] - 1)
    if antialias:
        theirs = rel.resize_rel_pos_bias_table_levit(table, (count, 3))
    else:
        theirs = rel.resize_rel_pos_bias_table_simple(table, grid, (count, 3))
    pos = Positions.grid(*grid)
    ours = swin_with(table, (4, 4), antialias=antialias)
    close(ours.bias(pos, pos), swin_with(theirs, grid).bias(pos, pos).detach(), atol=1e-5)


def test_timm_resizes_otherwise() -> None:
    """Its default keeps near offsets where they are; ours stretches. At the centre both keep the number."""
    rel = pytest.importorskip("timm.layers.pos_embed_rel")
    table, pos = torch.randn(49, 3), Positions.grid(6, 6)
    theirs = swin_with(rel.resize_rel_pos_bias_table(table, (6, 6), (121, 3)), (6, 6)).bias(pos, pos)
    ours = swin_with(table, (4, 4)).bias(pos, pos)
    close(ours[:, 0, 0], table[24])
    close(theirs[:, 0, 0], table[24], atol=1e-5)
    close(theirs[:, 1, 0], table[25], atol=1e-5)  # one column away stays one column away
    assert (ours[:, 1, 0] - table[25]).abs().max() > 0.1


@pytest.mark.parametrize("grid", [(4, 4), (3, 6), (7, 5)])
def test_swin_is_the_patch_part_of_beit(grid: tuple[int, int]) -> None:
    """transformers resamples bilinearly; the three entries of the class token are outside our contract."""
    beit = pytest.importorskip("transformers.models.beit.modeling_beit")
    from transformers import BeitConfig

    theirs = beit.BeitRelativePositionBias(BeitConfig(image_size=16, patch_size=4, num_attention_heads=3))
    nn.init.normal_(theirs.relative_position_bias_table)
    ours, pos = swin_with(theirs.relative_position_bias_table[:-3], (4, 4), resample="bilinear"), Positions.grid(*grid)
    close(ours.bias(pos, pos), theirs(grid).view(3, len(pos) + 1, -1)[:, 1:, 1:].detach())


def test_swin_in_timm_beit() -> None:
    """A whole attention layer with a class token, whose three entries are zero."""
    beit = pytest.importorskip("timm.models.beit")
    theirs = beit.Attention(12, num_heads=3, qkv_bias=True, window_size=(3, 4))
    randomise(theirs)
    nn.init.zeros_(theirs.relative_position_bias_table[-3:])
    ours = swin_with(theirs.relative_position_bias_table[:-3])
    qkv_bias = torch.cat((theirs.q_bias, torch.zeros(12), theirs.v_bias))
    x = torch.randn(2, 13, 12)
    same(attend(ours, theirs.qkv.weight, qkv_bias, theirs.proj, x, prefix=1), theirs(x))


def attend(
    encoding: PositionEncoding, weight: Tensor, bias: Tensor, out: nn.Linear, x: Tensor, prefix: int = 0
) -> Tensor:
    """Our attention layer with other people's weights, on a grid of 3x4."""
    attention = Attention(12, 3, bias=True, norm=None, eps=1e-5, dropout=0.0)
    put_linear(attention.qkv, weight, bias)
    put_linear(attention.out, out.weight, out.bias)
    return attention(x, Frame(encoding, GRID, prefix=prefix), None, 0)


def test_swin_window() -> None:
    """Swin's own layer over one window that is not square."""
    swin = pytest.importorskip("timm.models.swin_transformer")
    theirs = randomise(swin.WindowAttention(12, num_heads=3, window_size=(3, 4)))
    ours, x = swin_with(theirs.relative_position_bias_table), torch.randn(2, 12, 12)
    close(ours.bias(GRID, GRID), theirs._get_rel_pos_bias()[0].detach(), atol=0)
    same(attend(ours, theirs.qkv.weight, theirs.qkv.bias, theirs.proj, x), theirs(x))


def relative_vit(kind: str) -> tuple[ViT, nn.Module]:
    """timm's ViT with a relative bias in each layer, and ours with its weights but for the encodings."""
    timm = pytest.importorskip("timm.models.vision_transformer_relpos")
    theirs = timm.VisionTransformerRelPos(
        img_size=(12, 16), patch_size=4, num_classes=5, embed_dim=24, depth=2, num_heads=3, init_values=None,
        rel_pos_type=kind, rel_pos_dim=7 if kind == "mlp-swin" else None,
    )  # fmt: skip
    randomise(theirs)
    pos = Swin if kind == "bias" else lambda spec: SwinV2(spec, hidden=7)
    ours = ViT(
        image_size=(12, 16), patch_size=4, channels=3, classes=5, dim=24, heads=3, depth=2, norm_eps=1e-6, pos=pos
    ).eval()
    copy_trunk(ours, theirs, [layer.attn.qkv.bias for layer in theirs.blocks])
    return ours, theirs


def test_swin_in_a_vit() -> None:
    ours, theirs = relative_vit("bias")
    for encoding, layer in zip(ours.trunk.position, theirs.blocks):  # type: ignore[arg-type]
        put(encoding.table, layer.attn.rel_pos.relative_position_bias_table.T.unflatten(1, (5, 7)))
    images = torch.randn(2, 3, 12, 16)
    same(ours(images), theirs(images))


# ---- swin_v2 ----


def test_swin_v2_coordinates() -> None:
    """A network that hands its two inputs through, one to each head."""
    swin = SwinV2(Spec(8, 2, (3, 4), False), hidden=4)
    with torch.no_grad():
        swin.first.weight.copy_(torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]]))
        swin.second.weight.copy_(torch.tensor([[1.0, -1, 0, 0], [0, 0, 1, -1]]))
    bias = swin.bias(GRID, GRID).detach().double() / 16
    inputs = (bias / (1 - bias)).log()
    for q, k in itertools.product(range(12), repeat=2):
        expected = REFERENCE["swin_v2_coordinates"][q // 4 - k // 4 + 2, q % 4 - k % 4 + 3]
        close(inputs[:, q, k], expected, atol=1e-5)


def test_swin_v2_window() -> None:
    """The authors' layer as timm has it, with its cosine attention around our bias; also at a larger window."""
    swin = pytest.importorskip("timm.models.swin_transformer_v2")
    theirs = randomise(swin.WindowAttention(12, num_heads=3, window_size=(3, 4), pretrained_window_size=(3, 4)))
    ours = SwinV2(PATCHES)
    put_linear(ours.first, theirs.cpb_mlp[0].weight, theirs.cpb_mlp[0].bias)
    put_linear(ours.second, theirs.cpb_mlp[2].weight)
    for grid in ((3, 4), (5, 6), (1, 9)):
        theirs.set_window_size(grid)
        pos, x = Positions.grid(*grid), torch.randn(2, grid[0] * grid[1], 12)
        bias = torch.cat((theirs.q_bias, torch.zeros(12), theirs.v_bias))
        q, k, v = F.linear(x, theirs.qkv.weight, bias).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        scale = theirs.logit_scale.clamp(max=math.log(100)).exp() * 2  # of the heads, whose 1/sqrt(4) Frame brings
        y = Frame(ours, pos).attend(scale * F.normalize(q, dim=-1), F.normalize(k, dim=-1), v)
        same(theirs.proj(y.transpose(1, 2).flatten(2)), theirs(x))


def test_swin_v2_in_a_vit() -> None:
    """Trained on 3x4; at other grids timm, without a pretrained window, would normalise by the new one."""
    ours, theirs = relative_vit("mlp-swin")
    for encoding, layer in zip(ours.trunk.position, theirs.blocks):  # type: ignore[arg-type]
        put_linear(encoding.first, layer.attn.rel_pos.mlp.fc1.weight, layer.attn.rel_pos.mlp.fc1.bias)
        put_linear(encoding.second, layer.attn.rel_pos.mlp.fc2.weight)
    images = torch.randn(2, 3, 12, 16)
    same(ours(images), theirs(images))


def test_swin_v2_on_a_single_row() -> None:
    swin, pos = wild(SwinV2(Spec(12, 3, (1, 4), False))), Positions.grid(1, 4)
    bias = swin.bias(pos, pos)
    bias.sum().backward()
    assert bias.isfinite().all() and swin.first.weight.grad.isfinite().all()
    assert len(bias[0, 0].unique()) == 4
    assert swin.bias(Positions.grid(2, 4), Positions.grid(2, 4)).isfinite().all()


# ---- lookhere ----

LOOKS: dict[int, list[str]] = {  # the authors' words for what a head sees, fours by turns from two sets
    180: ["up", "down", "left", "right", "up+right", "up+left", "down+right", "down+left"],
    90: ["up left", "up right", "down left", "down right", "tri_up", "tri_down", "tri_left", "tri_right"],
    45: [f"tri_{one} {two}" for one, two in itertools.product(("up", "down"), ("left", "right"))]
    + [f"tri_{one} {two}" for one, two in itertools.product(("left", "right"), ("up", "down"))],
}


def looks(rule: str, dy: int, dx: int) -> bool:
    """Whether a head with these words sees a key dy rows below and dx columns right of the query."""
    plain = {"up": dy <= 0, "down": dy >= 0, "left": dx <= 0, "right": dx >= 0}
    wedges = {"up": abs(dx) <= -dy, "down": abs(dx) <= dy, "left": abs(dy) <= -dx, "right": abs(dy) <= dx}
    if "+" in rule:  # a diagonal half: either wedge
        return any(wedges[word] for word in rule.split("+"))
    return all(wedges[word[4:]] if word.startswith("tri_") else plain[word] for word in rule.split())


def views(encoding: LookHere, pos: Positions) -> list[tuple[bool, ...]]:
    """What each head sees, in an order that does not depend on that of the heads."""
    return sorted(tuple(seen.flatten().tolist()) for seen in encoding.seen(pos, pos))


@pytest.mark.parametrize("fov", [180, 90, 45])
@pytest.mark.parametrize("grid", [(3, 4), (5, 3)])
def test_lookhere_is_a_double_loop(fov: Fov, grid: tuple[int, int]) -> None:
    """12 heads in layer 1 of 3: views and biases by the rules, patch by patch."""
    lookhere = LookHere(
        Spec(24, 12, (3, 4), False, layer=1, layers=3), fov=fov, slope=3.0, first_layer=1.4, last_layer=1
    )
    pos, cells = Positions.grid(*grid), list(itertools.product(range(grid[0]), range(grid[1])))
    rules = [
        tuple(looks(rule, yk - yq, xk - xq) for (yq, xq), (yk, xk) in itertools.product(cells, cells))
        for rule in LOOKS[fov]
    ]
    everything = (True,) * len(cells) ** 2
    assert views(lookhere, pos) == sorted([*rules, *[everything] * 4])
    bias, seen = lookhere.bias(pos, pos), lookhere.seen(pos, pos)
    slopes = [0.5] * 8 + [0.25, 0.0625, 0.015625, 0.00390625]
    for (q, (yq, xq)), (k, (yk, xk)), h in itertools.product(enumerate(cells), enumerate(cells), range(12)):
        expected = -3.0 * 1.2 * slopes[h] * math.hypot(yq - yk, xq - xk) if seen[h, q, k] else float("-inf")
        assert math.isclose(float(bias[h, q, k]), expected, rel_tol=1e-6)
    assert (bias.diagonal(dim1=1, dim2=2) == 0).all()  # a patch always sees itself


@pytest.mark.parametrize(
    "fov, words",
    [
        (180, "up; down; left; right; up+left; down+right; up+right; down+left"),
        (90, "up left; down right; up right; down left; tri_up; tri_down; tri_left; tri_right"),
        (
            45,
            "tri_up right; tri_down left; tri_left up; tri_right down; "
            "tri_up left; tri_down right; tri_right up; tri_left down",
        ),
    ],
)
def test_lookhere_names_its_heads(fov: Fov, words: str) -> None:
    seen = LookHere(Spec(16, 8, (5, 5), False), fov=fov).seen(Positions.grid(5, 5), Positions.grid(5, 5))[:, 12]
    for head, rule in zip(seen, words.split("; "), strict=True):
        assert head.tolist() == [looks(rule, dy, dx) for dy in range(-2, 3) for dx in range(-2, 3)], rule


@pytest.mark.parametrize("fov, heads", [(180, 12), (90, 12), (45, 12), (180, 16), (90, 16), (180, 6), (90, 6)])
def test_lookhere_arrays(fov: Fov, heads: int) -> None:
    """The authors' numbers, whose heads come in another order."""
    layer = LookHere(Spec(2 * heads, heads, (3, 4), False), fov=fov, slope=1.0, first_layer=1.0)
    ours = sorted((-layer.bias(GRID, GRID)).double().flatten(1).tolist())
    theirs = sorted(REFERENCE[f"lookhere_{fov}_{heads}"].flatten(1).tolist())
    close(torch.tensor(ours), torch.tensor(theirs), atol=1e-6)


def test_lookhere_goes_linearly_over_the_depth() -> None:
    factors = [LookHere(Spec(8, 4, (3, 4), False, layer, 5)).slope for layer in range(5)]
    close(torch.tensor(factors), torch.tensor([3.0, 2.5, 2.0, 1.5, 1.0]))
    assert LookHere(Spec(8, 4, (3, 4), False)).slope == 3.0


@pytest.mark.parametrize("fov", [180, 90, 45])
@pytest.mark.parametrize("heads", [2, 3, 4, 6, 8, 12, 16, 24])
def test_lookhere_is_balanced(fov: Fov, heads: int) -> None:
    """For every head that sees a set of offsets another sees the opposite one; no head is blind to itself."""
    pos = Positions.grid(5, 5)
    seen = LookHere(Spec(2 * heads, heads, (5, 5), False), fov=fov).seen(pos, pos)[:, 12].unflatten(1, (5, 5))
    here = sorted(str(view.tolist()) for view in seen)
    assert here == sorted(str(view.flip(0, 1).tolist()) for view in seen)
    assert sum(bool(view.all()) for view in seen) == deal(heads)[1]


@pytest.mark.parametrize("heads", [5, 7, 9, 11, 13, 18])
def test_lookhere_refuses_other_numbers_of_heads(heads: int) -> None:
    with pytest.raises(ValueError, match=f"heads={heads} does not divide so: use 4, 6, 8, 12"):
        LookHere(Spec(heads, heads, (3, 4), False))


# ---- fast forms beside plain ones ----


@pytest.mark.parametrize("encoding", [Swin(PATCHES), SwinV2(PATCHES, hidden=6), FIRE2d(PATCHES, hidden=6)])
@pytest.mark.parametrize("part", [slice(None), slice(2, 7), slice(5, None, 2)])
def test_each_offset_once_is_every_cell(
    encoding: PositionEncoding, part: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild(encoding)
    weights = torch.randn(3, len(range(12)[part]), 12)
    results = []
    for form in (from_grid_offsets, from_grid_offsets_reference):
        module = __import__(type(encoding).__module__, fromlist=["from_grid_offsets"])
        monkeypatch.setattr(module, "from_grid_offsets", form)
        encoding.zero_grad()
        bias = encoding.bias(GRID[part], GRID)
        (bias * weights).sum().backward()
        results.append([bias.detach(), *(parameter.grad for parameter in encoding.parameters())])
    for here, there in zip(*results, strict=True):
        assert here is not None and there is not None
        close(here, there, atol=1e-5)


@pytest.mark.parametrize("queries, keys", [((3, 4), (3, 4)), ((2, 5), (4, 3)), ((1, 6), (6, 1))])
def test_grid_offsets_of_two_grids(queries: tuple[int, int], keys: tuple[int, int]) -> None:
    """Every offset has a value of its own, and cells of different grids find theirs."""
    q_pos, k_pos = Positions.grid(*queries), Positions.grid(*keys)

    def number(dy: Tensor, dx: Tensor) -> Tensor:
        return (100.0 * dy + dx)[None]

    found = from_grid_offsets(number, q_pos, k_pos)
    assert torch.equal(found, from_grid_offsets_reference(number, q_pos, k_pos))
    assert float(found[0, -1, 0]) == 100 * (queries[0] - 1) + queries[1] - 1
    assert torch.equal(from_grid_offsets(number, q_pos.shifted(50), k_pos.shifted(50)), found)
