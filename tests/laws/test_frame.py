"""Frame against attention written plainly: every kernel, prefix, strips, caches, causality."""

from __future__ import annotations

import pytest
import torch

from poslab.models import Cache
from poslab.positions import Frame, Positions
from poslab.positions.ops import Pairs, distance, from_offsets, from_offsets_reference, turn

from . import build, plain
from .build import IMAGE, RASTER, TEXT, Setting


def close(here: torch.Tensor, there: torch.Tensor) -> None:
    torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("word, setting", build.cases())
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_kernel_is_plain_attention(word: str, setting: Setting, training: bool) -> None:
    encoding, pos = build.encoding(word, setting), setting.positions()
    with torch.set_grad_enabled(training):
        frame = Frame(encoding, pos)
        for seed in (3, 4):  # twice: a second layer reads what the first one left in the frame
            q, k, v = frame.rotate(*build.heads_of(setting, seed=seed))
            close(frame.attend(q, k, v), plain.attention(encoding, q, k, v, pos))


@pytest.mark.parametrize("word, setting", build.cases((RASTER, IMAGE)))
@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_prefix(word: str, setting: Setting, prefix: int) -> None:
    """Rows of the prefix stay bit-exact, or become `rotate_prefix` of them where the encoding says so; rotation
    treats the patches as if they were alone; no bias on the prefix."""
    encoding, pos = build.encoding(word, setting), setting.positions()
    old = build.heads_of(setting, prefix=prefix)
    with torch.no_grad():
        frame = Frame(encoding, pos, prefix=prefix)
        new = frame.rotate(*old)
        alone = encoding.rotate(*(x[:, :, prefix:] for x in old), pos)
        first_q, first_k, first_v = (x[:, :, :prefix] for x in old)
        if encoding.overrides("rotate_prefix"):
            first_q, first_k = encoding.rotate_prefix(first_q, first_k)
        for before, after, patches in zip((first_q, first_k, first_v), new, alone, strict=True):
            assert torch.equal(before, after[:, :, :prefix])
            assert torch.equal(after[:, :, prefix:], patches)
        q, k, v = new
        close(frame.attend(q, k, v), plain.attention(encoding, q, k, v, pos, prefix=prefix))
        # patch-to-patch scores are those of the patches alone
        whole = plain.scores(encoding, q, k, pos, pos, prefix)[:, :, prefix:, prefix:]
        close(whole, plain.scores(encoding, q[:, :, prefix:], k[:, :, prefix:], pos, pos))


@pytest.mark.parametrize("word, setting", build.cases())
def test_weights_are_those_of_the_kernel(word: str, setting: Setting) -> None:
    """Weights times values are what `attend` gives: whole, in strips, and behind a prefix."""
    encoding, pos = build.encoding(word, setting), setting.positions()
    for prefix in (0,) if setting.causal else (0, 2):
        with torch.no_grad():
            frame = Frame(encoding, pos, prefix=prefix)
            q, k, v = frame.rotate(*build.heads_of(setting, prefix=prefix))
            expected, rows = frame.attend(q, k, v)[:, :, prefix:], q.shape[2]
            for strip in (5, rows):
                firsts = range(prefix, rows, strip)
                weights = torch.cat([frame.weights(q, k, n, min(n + strip, rows)) for n in firsts], dim=2)
                close(encoding.unrotate(weights @ v, pos), expected)


@pytest.mark.parametrize("word, setting", build.cases())
@pytest.mark.parametrize("prefix", [0, 3])
@pytest.mark.parametrize("strip", [1, 2, 5, 100])
def test_strips_are_the_whole(word: str, setting: Setting, prefix: int, strip: int) -> None:
    if prefix and setting.causal:
        pytest.skip("text: causal=True has no prefix")
    encoding, pos = build.encoding(word, setting), setting.positions()
    with torch.no_grad():
        whole = Frame(encoding, pos, prefix=prefix)
        q, k, v = whole.rotate(*build.heads_of(setting, prefix=prefix))
        close(Frame(encoding, pos, prefix=prefix, strip=strip).attend(q, k, v), whole.attend(q, k, v))


@pytest.mark.parametrize("word, setting", build.cases((TEXT,)))
@pytest.mark.parametrize("strip", [None, 2])
def test_last_queries_alone(word: str, setting: Setting, strip: int | None) -> None:
    """Seven queries against all keys are the last seven rows: the mask is aligned at the bottom right."""
    encoding, pos = build.encoding(word, setting), setting.positions()
    with torch.no_grad():
        whole = Frame(encoding, pos)
        q, k, v = whole.rotate(*build.heads_of(setting))
        tail = Frame(encoding, pos[len(pos) - 7 :], pos, strip=strip)
        close(tail.attend(q[:, :, -7:], k, v), whole.attend(q, k, v)[:, :, -7:])


@pytest.mark.parametrize("word, setting", build.cases((TEXT,)))
def test_causality_by_gradient(word: str, setting: Setting) -> None:
    """The logits at t depend on every token up to t, and on none after it."""
    gpt = build.model(word, setting)
    x = gpt.tokens(build.inputs(setting, (9,), batch=1)).detach().requires_grad_()
    y = gpt.trunk(x, Positions.line(9, extent=9))
    for t in range(9):
        (reach,) = torch.autograd.grad(y[0, t].square().sum(), x, retain_graph=True)
        reached = reach[0].abs().sum(-1) > 0
        assert reached.tolist() == [s <= t for s in range(9)]


@pytest.mark.parametrize("word, setting", build.cases((TEXT,)))
@pytest.mark.parametrize("chunk", [1, 5])
def test_cached_is_whole(word: str, setting: Setting, chunk: int) -> None:
    gpt, tokens = build.model(word, setting), build.inputs(setting)
    length = tokens.shape[1]
    with torch.no_grad():
        cache = Cache(build.DEPTH, length)
        pieces = [gpt(tokens[:, first : first + chunk], cache) for first in range(0, length, chunk)]
        close(torch.cat(pieces, dim=1), gpt(tokens))


@pytest.mark.parametrize("word, setting", build.cases((TEXT,)))
def test_greedy_generation_is_repeated_passes(word: str, setting: Setting) -> None:
    gpt, prompt = build.model(word, setting), build.inputs(setting, (6,))
    slow, new = prompt, 12
    with torch.no_grad():
        for _ in range(new):
            # the extent is that of the whole generation, for encodings which are defined by it
            pos = Positions.line(slow.shape[1], extent=prompt.shape[1] + new)
            step = gpt.head(gpt.trunk(gpt.tokens(slow), pos))[:, -1].argmax(-1, keepdim=True)
            slow = torch.cat((slow, step), dim=1)
    assert torch.equal(gpt.generate(prompt, new, temperature=0), slow)


# ---- fast forms beside plain ones ----


@pytest.mark.parametrize("queries, start, keys", [(7, 0, 7), (3, 4, 7), (1, 6, 7), (5, 2, 9), (4, 0, 1)])
def test_each_offset_once_is_every_cell(queries: int, start: int, keys: int) -> None:
    table = torch.randn(3, 40, requires_grad=True)
    q_pos, k_pos = Positions.line(queries, start), Positions.line(keys)
    weights = torch.randn(3, queries, keys)
    results = []
    for form in (from_offsets, from_offsets_reference):
        bias = form(lambda n: table[:, n + 20], q_pos, k_pos)
        (gradient,) = torch.autograd.grad((bias * weights).sum(), table)
        results.append((bias, gradient))
    assert torch.equal(results[0][0], results[1][0])
    close(results[0][1], results[1][1])


def test_offsets_need_a_line() -> None:
    """Positions that are no line, and parts of it in any steps, fall back to the plain form or keep their start."""
    line = Positions.line(8, 3)
    scattered = Positions(line.coordinates[torch.randperm(8)], line.extent)
    bias = from_offsets(lambda n: n[None].float(), scattered, line)
    assert torch.equal(bias[0].long(), scattered.axis(0)[:, None] - line.axis(0)[None])
    for part in (line[2:5], line[:-1], line[1:8:2], line.shifted(4), line.shifted(4)[1:3]):
        bias = from_offsets(lambda n: n[None].float(), part, line)
        assert torch.equal(bias[0].long(), part.axis(0)[:, None] - line.axis(0)[None])


@pytest.mark.parametrize("pairs", ["adj", "half"])
@pytest.mark.parametrize("width", [4, 8])
def test_turn_is_the_rotation_matrix(pairs: Pairs, width: int) -> None:
    """The complex product, and the real one that other dtypes and compilers take, against 2x2 matrices."""
    x, angle = torch.randn(2, 3, 5, 8), torch.randn(5, width // 2)
    expected = x.clone()
    for t in range(5):
        for c in range(width // 2):
            a, b = (2 * c, 2 * c + 1) if pairs == "adj" else (c, c + width // 2)
            cos, sin = angle[t, c].cos(), angle[t, c].sin()
            expected[:, :, t, a] = x[:, :, t, a] * cos - x[:, :, t, b] * sin
            expected[:, :, t, b] = x[:, :, t, a] * sin + x[:, :, t, b] * cos
    close(turn(x, angle.cos(), angle.sin(), pairs), expected)
    close(turn(x.double(), angle.cos(), angle.sin(), pairs).float(), expected)
    torch.testing.assert_close(
        turn(x.bfloat16(), angle.cos(), angle.sin(), pairs).float(), expected, rtol=0.02, atol=0.02
    )
    assert torch.equal(turn(x, angle.cos(), angle.sin(), pairs)[..., width:], x[..., width:])


def test_distance_is_a_double_loop() -> None:
    q_pos, k_pos = Positions.grid(3, 4), Positions.grid(2, 5)
    expected = [[float(((a - b).float() ** 2).sum() ** 0.5) for b in k_pos.coordinates] for a in q_pos.coordinates]
    close(distance(q_pos, k_pos), torch.tensor(expected))
