"""The models around the encodings: their options, their sizes, and the sentences they refuse with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from poslab.models import GPT, Cache, Transformer, ViT
from poslab.models.transformer import MLP, Attention, Block
from poslab.positions import Frame, Layers, PositionEncoding, Positions, Spec, Sum
from poslab.positions.alibi import ALiBi
from poslab.positions.learned import Learned
from poslab.positions.none import NoPosition
from poslab.positions.pope import PoPE
from poslab.positions.rope import RoPE
from poslab.positions.rope2d import RoPE2d
from poslab.positions.rope2d_mixed import RoPE2dMixed
from poslab.positions.shaw import Shaw
from poslab.positions.sine import Sine
from poslab.positions.sine2d import Sine2d
from poslab.positions.t5 import T5


def gpt(**options: Any) -> GPT:
    return GPT(**{"vocab": 13, "context": 16, "pos": RoPE, "dim": 16, "heads": 2, "depth": 2} | options)


def vit(**options: Any) -> ViT:
    defaults = {"image_size": (8, 12), "patch_size": (2, 3), "channels": 2, "classes": 5, "pos": RoPE2d}
    model = ViT(**defaults | {"dim": 16, "heads": 2, "depth": 2} | options)
    nn.init.normal_(model.head.weight)  # starts at zero
    return model


TOKENS = torch.arange(12).view(2, 6)


# ---- refusals are sentences with the remedy ----


@pytest.mark.parametrize("pos", [RoPE2d, Sine2d, RoPE2dMixed])
def test_gpt_refuses_grids(pos: Any) -> None:
    with pytest.raises(TypeError, match=r"2-D grids, a GPT has 1-D text: choose one for text"):
        gpt(pos=pos)


def test_vit_refuses_an_image_that_patches_do_not_divide() -> None:
    with pytest.raises(ValueError, match="9x12 does not divide into patches of 2x3: use 8x12"):
        vit()(torch.randn(1, 2, 9, 12))
    with pytest.raises(ValueError, match="8x13 does not divide"):
        vit(image_size=(8, 13))
    with pytest.raises(ValueError, match=r"wants images \(B, 2, height, width\)"):
        vit()(torch.randn(1, 3, 8, 12))


@pytest.mark.parametrize(
    "build, sentence",
    [
        (lambda: gpt(heads=3), "dim=16 does not divide into heads=3"),
        (lambda: gpt(heads=16), "a head of 1 is odd"),
        (lambda: gpt(pos=lambda spec: RoPE(spec, fraction=0.01)), "leaves no pair to turn"),
        (lambda: gpt(pos=lambda spec: RoPE(spec, pairs="both")), "pairs=both is not one of adj, half"),  # type: ignore
        (lambda: gpt(dim=15, heads=3, pos=Sine), "dim=15 is odd"),
        (lambda: vit(heads=8), "a head of 2 is not divisible by 4"),
        (lambda: vit(heads=8, pos=RoPE2dMixed), "a head of 2 is not divisible by 4"),
        (lambda: vit(dim=18, heads=3, pos=Sine2d), "dim=18 is not divisible by 4"),
        (lambda: gpt(pos=lambda spec: T5(spec, buckets=1)), "at least 4 buckets"),
        (lambda: gpt(pos=lambda spec: Shaw(spec, clip=0)), "at least 1, not 0"),
        (lambda: gpt(dropout=1.0), "dropout=1.0 is a probability below 1"),
        (lambda: gpt(depth=0), "at least one block"),
        (lambda: gpt(norm="batchnorm"), "not one of layernorm, rmsnorm"),
        (lambda: gpt(activation="tanh"), "not one of gelu, gelu_tanh, relu, swiglu"),
        (lambda: vit(pool="max"), "not one of class, mean"),
        (lambda: Frame(ALiBi(Spec(8, 2, (4,), True)), Positions.line(4), prefix=1), "set prefix=0"),
        (lambda: Positions(torch.zeros(3, 2, dtype=torch.long), (3,)), r"coordinates \(T, 1\)"),
        (lambda: Sum(Spec(16, 2, (4,), True), {"rope": RoPE, "rope2d": RoPE2d}), "sum encodings of one kind"),
        (lambda: Sum(Spec(16, 2, (4,), True), {"pope": PoPE, "rope": RoPE}), "pope widens q and k, which rope would"),
        (lambda: Sum(Spec(16, 2, (4,), True), {"shaw": Shaw, "pope": PoPE}), "pope widens q and k, which shaw would"),
        (lambda: Layers({"rope": RoPE}, ["rope", "none"]), "list of the parts"),
        (lambda: Layers({"rope": RoPE, "rope2d": RoPE2d}, ["rope", "rope2d"]), "one describes text, another grids"),
        (lambda: gpt(pos=Layers({"rope": RoPE, "learned": Learned}, ["rope", "learned"])), "before the first layer"),
    ],
)
def test_sentences(build: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


def test_positions_are_integers() -> None:
    with pytest.raises(TypeError, match="integers"):
        Positions(torch.zeros(3, 1), (3,))


def test_a_cache_is_as_long_as_it_was_made() -> None:
    model, cache = gpt().eval(), Cache(2, 6)
    model(TOKENS, cache)
    with pytest.raises(ValueError, match="made for 6 tokens, 7 do not fit"):
        model(TOKENS[:, :1], cache)


# ---- options do what they say ----


@pytest.mark.parametrize("option", ["dropout", "attention_dropout", "drop_path"])
@pytest.mark.parametrize("pos", [RoPE, ALiBi, Shaw])
def test_dropout_acts_in_training_only(option: str, pos: type[PositionEncoding]) -> None:
    """In each of the three kernels."""
    model = gpt(pos=pos, **{option: 0.5})
    model.train()
    assert not torch.equal(model(TOKENS), model(TOKENS))
    model.eval()
    still = gpt(pos=pos).eval()
    still.load_state_dict(model.state_dict())
    assert torch.equal(model(TOKENS), model(TOKENS)) and torch.equal(model(TOKENS), still(TOKENS))


def test_drop_path_drops_a_branch_for_whole_samples() -> None:
    """What is kept is scaled, so that the mean stays; the first block drops nothing, the last one most."""
    model = gpt(depth=3, drop_path=0.5).train()
    assert [block.drop_path for block in model.trunk.blocks] == [0, 0.25, 0.5]
    kept = model.trunk.blocks[2]._keep(torch.ones(4000, 2, 3))
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert (kept == kept[:, :1, :1]).all() and abs(float(kept.mean()) - 1) < 0.1


def test_qk_norm_makes_scores_blind_to_scale() -> None:
    attention = Attention(16, 2, bias=False, norm="layernorm", eps=1e-6, dropout=0).eval()
    frame = Frame(RoPE(Spec(16, 2, (6,), True)), Positions.line(6))
    x = torch.randn(2, 6, 16)
    before = attention(x, frame, None, 0)
    with torch.no_grad():
        attention.qkv.weight[:32] *= 7  # queries and keys
    torch.testing.assert_close(attention(x, frame, None, 0), before, rtol=1e-3, atol=1e-4)
    assert isinstance(gpt(qk_norm=True, norm="rmsnorm").trunk.blocks[0].attention.q_norm, nn.RMSNorm)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu", "swiglu"])
def test_activations(activation: Any) -> None:
    mlp, x = MLP(4, 8, activation, bias=True, dropout=0), torch.randn(3, 4)
    up = mlp.up(x)
    inner = {
        "gelu": lambda: nn.GELU()(up),
        "gelu_tanh": lambda: nn.GELU(approximate="tanh")(up),
        "relu": lambda: up.clamp(min=0),
        "swiglu": lambda: up[:, :8] * up[:, :8].sigmoid() * up[:, 8:],
    }[activation]()
    torch.testing.assert_close(mlp(x), mlp.down(inner))


@pytest.mark.parametrize("norm", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("bias", [True, False])
def test_norms_and_biases(norm: Any, bias: bool) -> None:
    model = gpt(norm=norm, bias=bias, qk_norm=True)
    biases = [name for name, _ in model.named_parameters() if name.endswith("bias")]
    assert bool(biases) == bias
    assert any("norm.bias" in name for name in biases) == (bias and norm == "layernorm")
    assert model(TOKENS).isfinite().all()


def test_tied_and_untied_heads() -> None:
    tied, free = gpt(tie=True), gpt(tie=False)
    assert tied.head.weight is tied.tokens.weight and free.head.weight is not free.tokens.weight
    assert len(list(free.parameters())) == len(list(tied.parameters())) + 1


def test_last_logits_only() -> None:
    model = gpt().eval()
    torch.testing.assert_close(model(TOKENS, last=2), model(TOKENS)[:, -2:])


def test_branches_end_small() -> None:
    """GPT-2: maps that end a branch start smaller by the square root of the number of branches."""
    blocks = [block for block in gpt(dim=64, depth=8).trunk.blocks if isinstance(block, Block)]
    end = torch.stack([block.mlp.down.weight.detach().std() for block in blocks]).mean()
    begin = torch.stack([block.mlp.up.weight.detach().std() for block in blocks]).mean()
    assert abs(float(begin / end) - 4) < 0.2


def test_sampling() -> None:
    """Reproducible from its generator, greedy with one choice, back in training mode afterwards."""
    model = gpt().train()
    nn.init.normal_(model.tokens.weight)
    draw = lambda **options: model.generate(  # noqa: E731
        TOKENS, 8, generator=torch.Generator().manual_seed(1), **options
    )
    assert torch.equal(draw(), draw()) and draw().shape == (2, 14)
    assert torch.equal(draw(top_k=1), draw(temperature=0)) and torch.equal(draw()[:, :6], TOKENS)
    assert model.training and model.generate(TOKENS, 0).equal(TOKENS)
    for options in ({"temperature": -1}, {"top_k": 0}):
        with pytest.raises(ValueError, match="temperature >= 0, top_k >= 1"):
            model.generate(TOKENS, 1, **options)


# ---- images of many shapes ----


@pytest.mark.parametrize("pool", ["class", "mean"])
@pytest.mark.parametrize("registers", [0, 4])
@pytest.mark.parametrize("batch", [1, 3])
def test_images_and_patches_that_are_not_square(pool: Any, registers: int, batch: int) -> None:
    model = vit(pool=pool, registers=registers)
    assert model.grid == (4, 4) and model.prefix == registers + (pool == "class")
    for size in ((8, 12), (4, 24), (2, 3)):
        assert model(torch.randn(batch, 2, *size)).shape == (batch, 5)


def test_patches_are_cut_row_by_row() -> None:
    model, images = vit(), torch.randn(2, 2, 8, 12)
    cut = model._cut(images, (4, 4))
    for row in range(4):
        for column in range(4):
            patch = images[:, :, 2 * row : 2 * row + 2, 3 * column : 3 * column + 3]
            assert torch.equal(cut[:, 4 * row + column], patch.flatten(1))


@pytest.mark.parametrize("pos", [NoPosition, RoPE, Shaw, RoPE2d, Learned])
def test_samples_do_not_mix(pos: type[PositionEncoding]) -> None:
    model, images = vit(pos=pos, pool="class").eval(), torch.randn(3, 2, 8, 12)
    torch.testing.assert_close(model(images)[1:2], model(images[1:2]), rtol=1e-4, atol=1e-5)


def test_one_axis_encodings_see_raster_order() -> None:
    assert vit(pos=RoPE).raster and vit(pos=RoPE).trunk.encoding.spec.extent == (16,)
    assert not vit(pos=Learned).raster and vit(pos=Learned).trunk.encoding.table.shape == (4, 4, 16)


def test_bfloat16() -> None:
    assert gpt().bfloat16()(TOKENS).dtype == torch.bfloat16
    assert vit(pool="class").bfloat16()(torch.randn(1, 2, 8, 12).bfloat16()).dtype == torch.bfloat16


def test_strips_of_the_trunk() -> None:
    """`trunk.strip` reaches the frames, and changes memory only."""
    model = vit(pos=lambda spec: T5(spec), pool="class").eval()
    images = torch.randn(2, 2, 8, 12)
    with torch.no_grad():
        whole = model(images)
        model.trunk.strip = 3
        torch.testing.assert_close(model(images), whole)


def test_a_sum_is_its_parts() -> None:
    """Learned table and rotation; per-layer parts in each layer, shared ones once; claims of all parts."""
    model = vit(pos=lambda spec: Sum(spec, {"a": Learned, "b": RoPE2dMixed, "c": RoPE2d}))
    names = [name for name, _ in model.trunk.position.named_parameters()]
    assert names == ["0.own.a.table", "0.own.b.frequency", "1.own.b.frequency"]
    first = model.trunk.encoding
    assert not first.shift_invariant and first.norm_preserving and first.unbounded and first.axes == 2
    assert model(torch.randn(2, 2, 8, 12)).isfinite().all()
    assert isinstance(model.trunk, Transformer)
