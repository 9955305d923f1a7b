"""Encodings that read q and k: reference arrays, other people's layers, a double loop beside each clever form."""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from poslab.models import Transformer
from poslab.positions import Frame, Layers, NotDefined, PositionEncoding, Positions, Spec, Sum
from poslab.positions.alibi import ALiBi
from poslab.positions.bert_relative import BertRelative
from poslab.positions.cope import CoPE
from poslab.positions.deberta import DeBERTa
from poslab.positions.irpe import IRPE
from poslab.positions.none import NoPosition
from poslab.positions.ops import Seen, dot_offsets, dot_offsets_reference, dot_rows, offset, recentred
from poslab.positions.transformer_xl import TransformerXL

from ..reference import arrays, legend
from .copying import put, randomise

REFERENCE, QUERIES = arrays("content"), arrays()
HEADS, WIDTH, LENGTH = 2, 4, 6  # of the reference queries and keys
BOTH, CAUSAL = (Spec(HEADS * WIDTH, HEADS, (LENGTH,), causal) for causal in (False, True))
LINE, GRID = Positions.line(LENGTH), Positions.grid(3, 4)


def close(here: Tensor, there: Tensor, atol: float = 2e-6) -> None:
    torch.testing.assert_close(here.detach().double(), there.double(), rtol=1e-5, atol=atol)


def fill(encoding: PositionEncoding, **values: Tensor) -> None:
    for name, value in values.items():
        put(getattr(encoding, name), value)


def reference_qk() -> tuple[Tensor, Tensor]:
    return QUERIES["q"].float()[None], QUERIES["k"].float()[None]


def random_qk(queries: int, keys: int, heads: int = HEADS, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    return torch.randn(2, heads, queries, width), torch.randn(2, heads, keys, width)


# rows of queries that attention asks for: all, the last ones, one, in the middle, few against many and many against few
CUTS = [(6, 0, 6), (2, 4, 6), (1, 5, 6), (3, 1, 6), (1, 0, 1), (7, 0, 2), (9, 3, 4), (5, 0, 1)]


def test_every_array_has_a_legend() -> None:
    names = [name.strip() for key in legend("content") for name in key.split(",")]
    for array in REFERENCE:
        assert any(array == name or (name[-1] == "*" and array.startswith(name[:-1])) for name in names), array


# ---- what they share ----


@pytest.mark.parametrize("queries, start, keys", CUTS)
@pytest.mark.parametrize("own", [True, False], ids=["by head", "shared"])
@pytest.mark.parametrize("seen", ["all", "past", "future"])
def test_each_offset_once_is_every_cell(queries: int, start: int, keys: int, own: bool, seen: Seen) -> None:
    """Values and gradients, for rows in one block and in several, the last of them not full."""
    table = torch.randn(*([HEADS] if own else []), 31, WIDTH, requires_grad=True)
    x, _ = random_qk(queries, keys)
    x.requires_grad_()
    q_pos, k_pos, weights = (
        Positions.line(queries, start),
        Positions.line(keys, 1),
        torch.randn(2, HEADS, queries, keys),
    )
    n = offset(q_pos, k_pos)
    hidden = {"all": n > 99, "past": n < 0, "future": n > 0}[seen]
    results = []
    for form in (partial(dot_offsets, seen=seen), dot_offsets_reference):
        cells = form(x, lambda n: table.index_select(-2, n + 15), q_pos, k_pos)
        assert cells.isfinite().all()
        cells = cells.masked_fill(hidden, 0)
        results.append((cells, *torch.autograd.grad((cells * weights).sum(), (x, table))))
    for here, there in zip(*results, strict=True):
        close(here, there, atol=1e-5)


def test_each_offset_once_is_a_double_loop() -> None:
    table, (x, _) = torch.randn(HEADS, 31, WIDTH), random_qk(4, 5)
    cells = dot_offsets(x, lambda n: table[:, n + 15], Positions.line(4, 3), Positions.line(5, 1))
    for i in range(4):
        for j in range(5):
            close(cells[:, :, i, j], (x[:, :, i] * table[:, 15 + (3 + i) - (1 + j)]).sum(-1))


@pytest.mark.parametrize("queries, start, keys", CUTS)
def test_only_offsets_that_occur_are_asked_for(queries: int, start: int, keys: int) -> None:
    """So that a table needs no row beyond them."""
    asked: list[int] = []

    def vectors(n: Tensor) -> Tensor:
        asked.extend(n.tolist())
        return torch.zeros(len(n), WIDTH)

    x, q_pos, k_pos = random_qk(queries, keys)[0], Positions.line(queries, start), Positions.line(keys)
    dot_offsets(x, vectors, q_pos, k_pos)
    assert sorted(asked) == list(range(start - keys + 1, start + queries))


def test_the_past_is_half_of_the_offsets() -> None:
    for seen, expected in (("past", range(5)), ("future", range(-4, 1))):
        asked: list[int] = []

        def vectors(n: Tensor, asked: list[int] = asked) -> Tensor:
            asked.extend(n.tolist())
            return torch.zeros(len(n), WIDTH)

        dot_offsets(random_qk(5, 5)[0], vectors, Positions.line(5), Positions.line(5), seen)  # type: ignore[arg-type]
        assert sorted(asked) == list(expected)


@pytest.mark.parametrize("own", [True, False], ids=["by head", "shared"])
def test_rows_are_a_double_loop(own: bool) -> None:
    table, index = torch.randn(*([HEADS] if own else []), 5, WIDTH), torch.randint(5, (3, 7))
    x, _ = random_qk(3, 7)
    cells = dot_rows(x, table, index)
    for i in range(3):
        for j in range(7):
            close(cells[:, :, i, j], (x[:, :, i] * table[..., index[i, j], :]).sum(-1))


@pytest.mark.parametrize("old", [6, 7])
def test_recentred(old: int) -> None:
    table = torch.arange(old)[:, None] - old // 2  # each row holds its offset
    for rows in (old - 2, old, old + 4):
        assert recentred(table, rows)[:, 0].tolist() == [
            min(max(n, -(old // 2)), (old - 1) // 2) for n in range(-(rows // 2), rows - rows // 2)
        ]


# ---- Transformer-XL ----


def txl(**options: Any) -> TransformerXL:
    encoding = TransformerXL(BOTH, **options)
    fill(encoding, weight=REFERENCE["txl_weight"], u=REFERENCE["txl_u"], v=REFERENCE["txl_v"])
    return encoding


def test_transformer_xl_scores() -> None:
    """Both sides of the diagonal; the published shift of rows agrees on and below it, and only there."""
    q, k = reference_qk()
    scores = (q @ k.mT * WIDTH**-0.5 + txl().content_bias(q, k, LINE, LINE))[0]
    close(scores, REFERENCE["txl_scores"])
    past = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    close(scores[:, past], REFERENCE["txl_shifted_scores"][:, past])
    assert (scores - REFERENCE["txl_shifted_scores"])[:, ~past].abs().max() > 1


@pytest.mark.parametrize("queries, start, keys", CUTS)
@pytest.mark.parametrize("clamp_len", [None, 2])
def test_transformer_xl_is_a_double_loop(queries: int, start: int, keys: int, clamp_len: int | None) -> None:
    encoding = randomise(TransformerXL(BOTH, theta=50.0, clamp_len=clamp_len))
    q, k = random_qk(queries, keys)
    bias = encoding.content_bias(q, k, Positions.line(queries, start), Positions.line(keys))
    w = [50.0 ** (-2 * i / 8) for i in range(4)]
    for i in range(queries):
        for j in range(keys):
            n = start + i - j
            n = n if clamp_len is None else max(-clamp_len, min(clamp_len, n))
            sines = torch.tensor([math.sin(n * f) for f in w] + [math.cos(n * f) for f in w])
            r = (encoding.weight @ sines).view(HEADS, WIDTH)
            expected = ((q[:, :, i] + encoding.v) * r).sum(-1) + (encoding.u * k[:, :, j]).sum(-1)
            close(bias[:, :, i, j], expected / 2, atol=1e-5)


# ---- DeBERTa ----


@pytest.mark.parametrize("p2c_index", ["code", "paper"])
def test_deberta_scores(p2c_index: Literal["code", "paper"]) -> None:
    """With the identity for the table, the maps are the projected vectors."""
    encoding, (q, k) = DeBERTa(BOTH, span=4, p2c_index=p2c_index), reference_qk()
    key, query = (REFERENCE[f"deberta_{side}"].flatten(1).T for side in ("key", "query"))
    fill(encoding, table=torch.eye(8), key_weight=key, query_weight=query)
    close(encoding.content_bias(q, k, LINE, LINE)[0], REFERENCE[f"deberta_bias_{p2c_index}"])
    assert encoding.scale == pytest.approx((3 * WIDTH) ** -0.5)


@pytest.mark.parametrize("buckets, span", [(256, 512), (32, 128)])
def test_deberta_buckets(buckets: int, span: int) -> None:
    encoding = DeBERTa(Spec(8, 2, (64,), False), span=span, log_buckets=buckets)
    expected = (REFERENCE[f"deberta_bucket_{buckets}_{span}"] + buckets).clamp(0, 2 * buckets - 1)
    assert torch.equal(encoding.row(REFERENCE["deberta_offset"]), expected)


@pytest.mark.parametrize("buckets, span", [(26, 70), (52, 139), (78, 208), (98, 444)])
def test_deberta_last_bucket_is_reached_exactly(buckets: int, span: int) -> None:
    """span - 1 opens no bucket of its own, though its logarithms round to a ratio a hair above one."""
    encoding = DeBERTa(Spec(8, 2, (64,), False), span=span, log_buckets=buckets)
    n = torch.tensor([span - 1, 1 - span] * 8)
    assert encoding.row(n).tolist() == [2 * buckets - 1, 1] * 8


def test_deberta_spans_the_trained_extent() -> None:
    assert DeBERTa(BOTH).row(torch.arange(-8, 9)).tolist() == [0, 0, *range(12), 11, 11, 11]


@pytest.mark.parametrize("queries, start, keys", CUTS)
@pytest.mark.parametrize("p2c_index", ["code", "paper"])
@pytest.mark.parametrize("log_buckets", [None, 4])
def test_deberta_is_a_double_loop(
    queries: int, start: int, keys: int, p2c_index: Literal["code", "paper"], log_buckets: int | None
) -> None:
    encoding = randomise(DeBERTa(BOTH, span=5, log_buckets=log_buckets, p2c_index=p2c_index))
    q, k = random_qk(queries, keys)
    bias = encoding.content_bias(q, k, Positions.line(queries, start), Positions.line(keys))
    key, query = ((encoding.table @ w.T).view(-1, HEADS, WIDTH) for w in (encoding.key_weight, encoding.query_weight))
    for i in range(queries):
        for j in range(keys):
            n = start + i - j
            there, back = (int(encoding.row(torch.tensor(m))) for m in (n, n if p2c_index == "code" else -n))
            expected = (q[:, :, i] * key[there]).sum(-1) + (k[:, :, j] * query[back]).sum(-1)
            close(bias[:, :, i, j], expected / (3 * WIDTH) ** 0.5, atol=1e-5)


def deberta_layer(module: str, dim: int, heads: int, **options: Any) -> tuple[Any, Tensor]:
    """A random disentangled attention of transformers, without biases on the maps of positions, and its table."""
    pytest.importorskip("transformers")
    library = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    config = importlib.import_module(f"transformers.models.{module}.configuration_{module}")
    kind = "DebertaV2Config" if module == "deberta_v2" else "DebertaConfig"
    config = getattr(config, kind)(
        hidden_size=dim, num_attention_heads=heads, relative_attention=True, pos_att_type=["c2p", "p2c"], **options
    )
    layer = randomise(library.DisentangledSelfAttention(config))
    buckets = options.get("position_buckets", -1)
    rows = 2 * (buckets if buckets > 0 else options["max_relative_positions"])
    for name, parameter in layer.named_parameters():
        if name in ("pos_key_proj.bias", "pos_query_proj.bias", "pos_q_proj.bias"):
            nn.init.zeros_(parameter)
    return layer, torch.randn(rows, dim)


def attended(encoding: PositionEncoding, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(B, T, C)"""
    heads = [x.unflatten(-1, (encoding.spec.heads, -1)).transpose(1, 2) for x in (q, k, v)]
    return Frame(encoding, Positions.line(q.shape[1])).attend(*heads).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("length", [5, 40])
@pytest.mark.parametrize("buckets, span", [(-1, 8), (-1, 64), (8, 16), (16, 64)])
def test_deberta_v2_attention(length: int, buckets: int, span: int) -> None:
    dim, heads = 24, 3
    theirs, table = deberta_layer(
        "deberta_v2", dim, heads, position_buckets=buckets, max_relative_positions=span, share_att_key=False
    )
    spec = Spec(dim, heads, (64,), False)
    ours = DeBERTa(spec, span=span, log_buckets=None if buckets < 0 else buckets)
    fill(ours, table=table, key_weight=theirs.pos_key_proj.weight, query_weight=theirs.pos_query_proj.weight)
    x = torch.randn(2, length, dim)
    q, k, v = theirs.query_proj(x), theirs.key_proj(x), theirs.value_proj(x)
    expected, _ = theirs(x, torch.ones(2, 1, length, length), rel_embeddings=table)
    close(attended(ours, q, k, v), expected, atol=1e-5)


@pytest.mark.parametrize("length", [5, 40])
def test_deberta_v1_attention(length: int) -> None:
    dim, heads, span = 24, 3, 8
    theirs, table = deberta_layer("deberta", dim, heads, max_relative_positions=span)
    ours = DeBERTa(Spec(dim, heads, (64,), False), span=span)
    fill(ours, table=table, key_weight=theirs.pos_proj.weight, query_weight=theirs.pos_q_proj.weight)
    x = torch.randn(2, length, dim)
    q, k, v = (part.flatten(2) for part in theirs.in_proj(x).unflatten(-1, (heads, 3, -1)).unbind(-2))
    n = torch.arange(length)[:, None] - torch.arange(length)
    expected, _ = theirs(x, torch.ones(2, 1, length, length), relative_pos=n[None], rel_embeddings=table)
    close(attended(ours, q + theirs.q_bias, k, v + theirs.v_bias), expected, atol=1e-5)


# ---- BERT ----


@pytest.mark.parametrize("queries, start, keys", [cut for cut in CUTS if cut[0] + cut[1] <= LENGTH])
@pytest.mark.parametrize("form", ["key", "key_query"])
def test_bert_relative_is_a_double_loop(queries: int, start: int, keys: int, form: Literal["key", "key_query"]) -> None:
    encoding = BertRelative(BOTH, form=form, init_std=1.0)
    assert encoding.table.shape == (2 * LENGTH - 1, WIDTH)
    q, k = random_qk(queries, keys)
    bias = encoding.content_bias(q, k, Positions.line(queries, start), Positions.line(keys))
    for i in range(queries):
        for j in range(keys):
            row = encoding.table[start + i - j + LENGTH - 1]
            asked = q[:, :, i] + (k[:, :, j] if form == "key_query" else 0)
            close(bias[:, :, i, j], asked @ row / WIDTH**0.5, atol=1e-5)


def test_bert_relative_in_closed_form() -> None:
    """A vector that is the offset itself, for queries and keys of ones: 2 D n / sqrt(D) in the cell of offset n."""
    encoding, ones = BertRelative(BOTH), torch.ones(1, HEADS, LENGTH, WIDTH)
    fill(encoding, table=torch.arange(-LENGTH + 1, LENGTH).float()[:, None].expand(-1, WIDTH))
    n = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    close(encoding.content_bias(ones, ones, LINE, LINE)[0, 1], 4.0 * n)


def test_bert_relative_ends_with_its_table() -> None:
    with pytest.raises(NotDefined, match="up to 6, the input reaches 7"):
        Frame(BertRelative(BOTH), Positions.line(7))


# ---- CoPE ----

PAST = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()


def test_cope_bias() -> None:
    encoding, (q, k) = CoPE(CAUSAL, max_pos=4), reference_qk()
    fill(encoding, table=REFERENCE["cope_table"])
    close(encoding.content_bias(q, k, LINE, LINE)[0][:, PAST], REFERENCE["cope_bias"][:, PAST])


@pytest.mark.parametrize("max_pos", [4, 16])
def test_cope_of_x_transformers(max_pos: int) -> None:
    """Their scores have the mask in them, as ours have it in attention."""
    library = pytest.importorskip("x_transformers.x_transformers")
    theirs, ours = library.CoPE(WIDTH, HEADS, max_pos), CoPE(CAUSAL, max_pos=max_pos)
    table = torch.randn(max_pos, WIDTH)
    put(theirs.pos_emb, table), put(ours.table, table)
    q, k = random_qk(LENGTH, LENGTH)
    logits = (q @ k.mT * WIDTH**-0.5).masked_fill(~PAST, -torch.finfo(torch.float32).max)
    close(ours.content_bias(q, k, LINE, LINE)[..., PAST], theirs(q, logits)[..., PAST])


@pytest.mark.parametrize("queries, start, keys", CUTS)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_cope_is_a_double_loop(queries: int, start: int, keys: int, scaled: bool, shuffled: bool) -> None:
    """For any rows of queries the sum runs over the keys between, in whatever order they are listed."""
    encoding = randomise(CoPE(CAUSAL, max_pos=4, scaled=scaled))
    (q, k), k_pos = random_qk(queries, keys), Positions.line(keys)
    place = torch.randperm(keys) if shuffled else torch.arange(keys)
    if shuffled:
        k_pos = Positions(place[:, None], (keys,))
    bias = encoding.content_bias(q, k, Positions.line(queries, start), k_pos)
    gates = (q @ k.mT * WIDTH**-0.5).sigmoid()
    for i in range(queries):
        for j in range(keys):
            if place[j] > start + i:
                continue
            between = [t for t in range(keys) if place[j] <= place[t] <= start + i]
            p = gates[:, :, i, between].sum(-1).clamp(max=3)
            whole = p.long()
            table = torch.cat((encoding.table, encoding.table[-1:]))  # p = 3 has nothing above it
            vector = torch.lerp(table[whole], table[whole + 1], (p - whole)[..., None])
            close(bias[:, :, i, j], (q[:, :, i] * vector).sum(-1) * (WIDTH**-0.5 if scaled else 1), atol=1e-5)


def test_cope_counts_in_float32() -> None:
    """Under autocast too: at bfloat16 a sum of a hundred gates would have steps of a half."""
    encoding, (q, k) = CoPE(CAUSAL, max_pos=200), random_qk(150, 150)
    line = Positions.line(150)
    with torch.autocast("cpu", torch.bfloat16):
        inside = encoding.positions(q, k, line, line)
    assert inside.max() > 50 and torch.equal(inside, encoding.positions(q, k, line, line))


def test_cope_is_causal() -> None:
    with pytest.raises(ValueError, match="causal"):
        CoPE(BOTH)


# ---- iRPE ----


def test_irpe_buckets() -> None:
    """With the identity for the table, a query of 0 ... 48 reads the number of the bucket."""
    encoding = IRPE(Spec(49, 1, (3, 4), False))
    fill(encoding, table=torch.eye(49)[None])
    q = torch.arange(49.0).expand(1, 1, 12, 49) * 7  # sqrt(D)
    close(encoding.content_bias(q, q, GRID, GRID)[0, 0], REFERENCE["irpe_bucket"])


def test_irpe_by_hand() -> None:
    """Three buckets a side: 1; 2 and 3; 4 and on."""
    n = torch.arange(-17, 18)
    expected = [-3] * 14 + [-2, -2, -1, 0, 1, 2, 2] + [3] * 14
    assert IRPE(Spec(8, 2, (14, 14), False)).bucket(n).tolist() == expected


@pytest.mark.parametrize("share_heads", [True, False])
@pytest.mark.parametrize("q_grid, k_grid", [((3, 4), (3, 4)), ((2, 7), (5, 3))])
def test_irpe_is_a_double_loop(share_heads: bool, q_grid: tuple[int, int], k_grid: tuple[int, int]) -> None:
    alpha, beta, gamma = 1.2, 4.9, 6.0
    encoding = randomise(IRPE(Spec(8, HEADS, (3, 4), False), alpha, beta, gamma, share_heads))
    q_pos, k_pos = Positions.grid(*q_grid), Positions.grid(*k_grid)
    q, k = random_qk(len(q_pos), len(k_pos))
    bias = encoding.content_bias(q, k, q_pos, k_pos)

    def bucket(n: int) -> int:
        if abs(n) <= alpha:
            return n
        far = round(alpha + (beta - alpha) * math.log(abs(n) / alpha) / math.log(gamma / alpha))
        return int(math.copysign(int(min(beta, far)), n))

    table = encoding.table.view(-1, 9, 9, WIDTH).expand(HEADS, -1, -1, -1)
    for i, (y, x) in enumerate(q_pos.coordinates.tolist()):
        for j, (row, column) in enumerate(k_pos.coordinates.tolist()):
            vector = table[:, bucket(y - row) + 4, bucket(x - column) + 4]
            close(bias[:, :, i, j], (q[:, :, i] * vector).sum(-1) / 2, atol=1e-5)


# ---- what layers share ----

DEPTH = 4
Factory = Callable[[Spec], PositionEncoding]
SHARED = {TransformerXL: {"u", "v"}, DeBERTa: {"table"}}


def compositions(kind: type[PositionEncoding]) -> Mapping[str, tuple[Any, str, list[int]]]:
    """A factory, where its encoding lies in a module of `trunk.position`, and the layers that have one."""
    return {
        "alone": (kind, "", [0, 1, 2, 3]),
        "sum": (partial(Sum, parts={"alibi": ALiBi, "here": kind}), ".own.here", [0, 1, 2, 3]),
        "by turns": (Layers({"here": kind, "none": NoPosition}, ["none", "here"]), "", [1, 3]),
    }


def build(factory: Any, **options: Any) -> Transformer:
    return Transformer(dim=8, heads=2, depth=DEPTH, extent=(LENGTH,), causal=False, pos=factory, **options)


def inside(trunk: nn.Module, path: str) -> list[Any]:
    return [module.get_submodule(path.lstrip(".")) for module in trunk.position]  # type: ignore[union-attr]


def moves(trunk: nn.Module, parameter: nn.Parameter, *layers: nn.Module) -> list[bool]:
    """Whether the content bias of each layer changes with a parameter."""
    q, k = random_qk(LENGTH, LENGTH)
    with torch.no_grad():
        before = [layer.content_bias(q, k, LINE, LINE) for layer in layers]  # type: ignore[operator]
        parameter += 1
        after = [layer.content_bias(q, k, LINE, LINE) for layer in layers]  # type: ignore[operator]
        parameter -= 1
    return [not torch.equal(one, other) for one, other in zip(before, after, strict=True)]


@pytest.mark.parametrize("kind", SHARED)
@pytest.mark.parametrize("composed", ["alone", "sum", "by turns"])
def test_one_parameter_for_all_layers(kind: type[PositionEncoding], composed: str) -> None:
    """It is stored once, reaches every layer and learns from all of them; also in a copy, and after a meta build."""
    factory, path, layers = compositions(kind)[composed]
    with torch.device("meta"):
        late = build(factory)
    late.to_empty(device="cpu")
    late.init_weights()
    direct = build(factory)
    for trunk in (direct, copy.deepcopy(direct), late):
        randomise(trunk)
        mine = [module for module in inside(trunk, path if composed == "sum" else "") if isinstance(module, kind)]
        assert len(mine) == len(layers)
        for name in SHARED[kind]:
            stored = [key for key in trunk.state_dict() if key.startswith("position.") and key.endswith(f".{name}")]
            assert len(stored) == 1, stored
            parameter = trunk.get_parameter(stored[0])
            assert all(moves(trunk, parameter, *mine))
            q, k = random_qk(LENGTH, LENGTH)
            for layer in mine:  # each layer alone sends it a gradient
                (gradient,) = torch.autograd.grad(layer.content_bias(q, k, LINE, LINE).square().sum(), parameter)
                assert gradient.any()
    # a copy has a parameter of its own
    copied = copy.deepcopy(direct)
    first = next(module for module in copied.modules() if isinstance(module, kind))
    others = [module for module in direct.modules() if isinstance(module, kind)]
    name = next(iter(SHARED[kind]))
    assert not any(moves(direct, getattr(first, name), *others))
    build(factory).load_state_dict(direct.state_dict(), strict=True)


def test_untied_layers_have_their_own() -> None:
    trunk = build(partial(TransformerXL, tie=False))
    names = [name for name in trunk.state_dict() if name.endswith((".u", ".v"))]
    assert len(names) == 2 * DEPTH
    first, second, *_ = randomise(trunk).position  # type: ignore[union-attr,misc]
    assert moves(trunk, first.u, first, second) == [True, False]


@pytest.mark.parametrize("kind", [DeBERTa, BertRelative])
def test_longer_tables_keep_what_was_learned(kind: type[PositionEncoding]) -> None:
    """Fine-tuned at twice the length: the same bias for the old offsets, the farthest one's for new ones."""
    old, new = randomise(kind(BOTH)), kind(Spec(8, 2, (2 * LENGTH,), False))
    new.adopt(old)
    q, k = random_qk(LENGTH, LENGTH)
    close(new.content_bias(q, k, LINE, LINE), old.content_bias(q, k, LINE, LINE))
    q, k, here = q[:, :, :1], k[:, :, :1], Positions.line(1, 20)
    for new_offset, known in ((9, 5), (-9, -5 if kind is BertRelative else -6)):
        far, near = (new.content_bias(q, k, Positions.line(1, 20 + n), here) for n in (new_offset, known))
        assert torch.equal(far, near) and not torch.equal(far, new.content_bias(q, k, here, here))
