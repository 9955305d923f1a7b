"""Benchmarks find a ratio that was planted, time equal jobs, and run to their end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks import around, encodings, gpu, gpu_attention, gpu_models, growth, models, roofline, step, train_step
from benchmarks.batches import CONTEXT, IMAGES, SEQUENCES, Items, one_by_one
from benchmarks.memory import peak_bytes
from benchmarks.models import SMALL_GPT, SMALL_VIT, batch, build
from benchmarks.pairs import by_turns, counted, difference, exponent, median_bounds, ratio
from benchmarks.peers import Peer
from benchmarks.report import Options, parse, run
from torch import nn

from poslab.data.mnist5k import MNIST5k
from poslab.evaluators.timing import forward_flops

for library in ("timm", "transformers", "x_transformers", "vit_pytorch"):
    pytest.importorskip(library)

KINDS = {"nothing", "additive", "rotary", "constant bias", "learned bias", "content bias"}
FEW = ("none", "rope", "alibi", "t5", "rope2d")


class Machine:
    """Runs that take as long as they say, on a machine that gets slower and now and then stalls."""

    def __init__(self) -> None:
        self.generator, self.run = np.random.default_rng(0), 0

    def takes(self, seconds: float) -> Any:
        def contestant() -> float:
            self.run += 1
            stall = 20 if self.generator.random() < 0.05 else 1
            return seconds * (1 + 0.05 * self.run) * stall * self.generator.lognormal(0, 0.05)

        return contestant


def test_a_planted_ratio_is_found() -> None:
    machine = Machine()
    found = ratio("case", "other", machine.takes(1.3), machine.takes(1.0), 100, goal=1.31)
    assert found.low <= 1.3 <= found.high and found.high - found.low < 0.05
    assert abs(found.median - 1.3) < 0.03


def test_a_planted_difference_is_found() -> None:
    generator = np.random.default_rng(0)
    ours, theirs = (lambda: 0.0112 + generator.normal(0, 1e-4)), (lambda: 0.01 + generator.normal(0, 1e-4))
    found = difference("case", "other", ours, theirs, 30, "ms", goal=1.3)
    assert found.low <= 1.2 <= found.high <= 1.3 and found.met


def test_contestants_take_turns() -> None:
    calls = []
    seconds = by_turns(lambda: calls.append("a") or 2.0, lambda: calls.append("b") or 1.0, pairs=4, warm_up=2)
    assert calls == ["a", "b"] * 6 and seconds.shape == (4, 2) and (seconds[:, 0] == 2).all()


@pytest.mark.parametrize("count", [4, 30])
def test_the_bounds_cover(count: int) -> None:
    """The true median of skewed values is under the upper bound in 90 % of samples or a few more; the lower likewise.

    The confidence is that of the nearest order statistics: 95 % of 30 values.
    """
    samples = np.random.default_rng(count).lognormal(0, 1, (2000, count))
    bounds = np.array([median_bounds(sample) for sample in samples])
    for covered in (np.mean(bounds[:, 2] >= 1), np.mean(bounds[:, 1] <= 1)):
        assert 0.9 < covered < 0.97


def test_too_few_pairs_bound_nothing() -> None:
    with pytest.raises(ValueError, match="4 or more"):
        median_bounds(np.ones(3))


def test_a_goal_is_met_by_the_bound_and_not_by_the_median() -> None:
    machine = Machine()
    found = ratio("case", "other", machine.takes(1.0), machine.takes(1.0), 30, goal=1.0)
    assert found.median < found.high and found.met is (found.high <= 1.0)
    assert counted("case", "other", 1.0).met is None and counted("case", "other", 1.0, goal=1.0).met


def test_exponents() -> None:
    sizes = np.array([1, 2, 4, 8])
    assert exponent(sizes, 3.0 * sizes**1.5) == pytest.approx(1.5)


def test_peak_memory_is_counted_exactly() -> None:
    def work() -> None:
        first = torch.zeros(1000)
        second = first + 1
        del first
        second.add_(1)
        third = second + 1
        del second, third

    assert 8000 <= peak_bytes(work) < 8100  # two of 4,000 at once, and scalars
    training = step.Step(build(SMALL_GPT, "t5"), batch(SMALL_GPT))
    training()
    assert training.peak_bytes() == training.peak_bytes() > 0


def test_a_step_that_learns_nothing_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    training = step.Step(build(SMALL_GPT, "rope"), batch(SMALL_GPT))
    for _ in range(3):
        training()
    training.check()
    monkeypatch.setitem(step.OPTIM, "lr", 0.0)
    idle = step.Step(build(SMALL_GPT, "rope"), batch(SMALL_GPT))
    for _ in range(3):
        idle()
    with pytest.raises(RuntimeError, match="no training"):
        idle.check()


@pytest.mark.parametrize("shape", [SMALL_VIT, SMALL_GPT], ids=["image", "text"])
def test_peers_do_the_same_job(shape: models.Shape) -> None:
    """As many parameters beside the encoding, logits of the same shape, and both learn."""
    for peer in train_step.PEERS[shape.kind]:
        ours, theirs = train_step.contestants(shape, peer)
        assert ours.model(ours.inputs).shape == theirs.model(theirs.inputs).shape, peer.name
        by_turns(ours, theirs, pairs=3, warm_up=0)
        ours.check()
        theirs.check()


def test_another_job_is_refused() -> None:
    peer = train_step.PEERS["text"][0]
    deeper = Peer(
        "deeper", "learned", lambda shape: nn.Sequential(peer.build(shape), nn.Linear(32, 32)), ("positions",)
    )
    with pytest.raises(RuntimeError, match="deeper learns"):
        train_step.contestants(SMALL_GPT, deeper)


def test_every_encoding_is_among_the_words() -> None:
    found = {word: encodings.kind_of(each) for s in (SMALL_GPT, SMALL_VIT) for word, each in models.words(s).items()}
    assert set(found) == set(models.configs().options("pos")) and set(found.values()) == KINDS


@pytest.mark.parametrize("shape", [SMALL_VIT, SMALL_GPT], ids=["image", "text"])
def test_products_are_those_of_a_step(shape: models.Shape) -> None:
    """Three times those of a forward pass as torch counts them, less the gradient of the images, which nobody wants."""
    model = build(shape, "none")
    unwanted = 0
    if shape is SMALL_VIT:
        unwanted = 2 * shape.batch * (shape.tokens - 1) * model.patches.weight.numel()
    expected = 3 * forward_flops(model, batch(shape)[0]) - unwanted
    assert roofline.Products(roofline.operands(model, shape)).flops == expected


def test_plain_attention_computes_the_same() -> None:
    model, (inputs, _) = build(SMALL_GPT, "t5"), batch(SMALL_GPT)
    expected = model(inputs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encodings.Frame, "attend", encodings.plain_attention)
        torch.testing.assert_close(model(inputs), expected)


def test_item_by_item_gives_batches_like_ours(tmp_path: Path) -> None:
    data = MNIST5k()
    items = Items(data)
    assert len(items) == len(data.train) and items[0][0].shape == data.prepare(data.train.images[:1])[0].shape
    np.arange(5 * CONTEXT, dtype=np.uint16).tofile(tmp_path / "stream")
    inputs, targets = one_by_one(tmp_path / "stream")
    assert inputs.shape == (SEQUENCES, CONTEXT) and torch.equal(inputs[:, 1:], targets[:, :-1]) and IMAGES == 64


def test_a_command_that_ends_otherwise_is_no_measurement() -> None:
    assert around.command(3, "-c", "raise SystemExit(3)")() > 0
    with pytest.raises(RuntimeError, match="ended with 3 and not 0"):
        around.command(0, "-c", "raise SystemExit(3)")()


@pytest.mark.parametrize(
    "name, rows, only, least",
    [
        ("train_step", train_step.rows, "timm Eva", 3),
        ("encodings", encodings.rows, "`t5`", 2),
        ("encodings", encodings.rows, "`rope2d`", 1),
        ("roofline", roofline.rows, "", 2),
        ("growth", growth.rows, "`alibi", 6),
        ("around", around.rows, "batches", 2),
        ("around", around.rows, "Lightning", 1),
    ],
)
def test_a_benchmark_runs(tmp_path: Path, name: str, rows: Any, only: str, least: int) -> None:
    found = run(name, rows, Options(pairs=4, small=True, only=(only,) if only else (), out=tmp_path))
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert len(found) == len(written["rows"]) == least
    assert all(np.isfinite(row.median) for row in found)
    assert (tmp_path / f"{name}.md").read_text().count("\n") == least + 2
    assert written["machine"]["versions"]["torch"] == torch.__version__.partition("+")[0]


@pytest.fixture
def few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (gpu_models, gpu_attention):
        monkeypatch.setattr(module, "words", lambda shape: {w: e for w, e in models.words(shape).items() if w in FEW})


@pytest.mark.usefixtures("few_words")
def test_the_gpu_script_runs_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "TOTAL", float("inf"))  # a busy machine may take long
    monkeypatch.setattr(gpu, "PARTS", {name: (float("inf"), part) for name, (_, part) in gpu.PARTS.items()})
    found = gpu.run(gpu.SMALL, tmp_path / "gpu.json")
    assert json.loads((tmp_path / "gpu.json").read_text()) == json.loads(json.dumps(found))
    for name, part in found["parts"].items():
        assert part["error"] is None and part["rows"] and not part["time_was_up"], name
    for name in ("correct_models", "correct_attention"):  # the others are times, which a busy machine decides
        assert all(row["met"] for row in found["parts"][name]["rows"]), name
    assert all(row["appetite"] > 0 for row in found["parts"]["input"]["rows"])
    ways = {row["way"] for row in found["parts"]["correct_attention"]["rows"]}
    assert ways == {"SDPA with a mask", "FlexAttention", "folded"}


def test_a_part_that_fails_or_takes_long_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(setup: gpu.Setup) -> Iterator[gpu.Row]:
        yield {"row": 1}
        raise RuntimeError("out of order")

    def endless(setup: gpu.Setup) -> Iterator[gpu.Row]:
        while True:
            yield {"row": 1}

    monkeypatch.setattr(gpu, "PARTS", {"fails": (9, fails), "endless": (0.01, endless), "late": (9, fails)})
    parts = gpu.run(gpu.SMALL, tmp_path / "gpu.json")["parts"]
    assert "out of order" in parts["fails"]["error"] and parts["fails"]["rows"] == [{"row": 1}]
    assert parts["endless"]["time_was_up"] and parts["endless"]["error"] is None and parts["late"]["rows"]
    monkeypatch.setattr(gpu, "TOTAL", 0.0)
    parts = gpu.run(gpu.SMALL, tmp_path / "gpu.json")["parts"]
    assert all(part["time_was_up"] and not part["rows"] for part in parts.values())


def test_only_takes_several_texts() -> None:
    options = parse(["--only", "T=64", "timm"], "")
    assert options.wants("GPT, T=64", "x") and options.wants("ViT", "timm Eva") and not options.wants("ViT", "torch")
    assert parse([], "").wants("anything")
