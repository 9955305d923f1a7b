"""Shift, attention and cost: models whose answers are known before they are asked."""

from __future__ import annotations

import csv
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from poslab.comparison import compare
from poslab.data.copy import Copy
from poslab.data.digits import Digits
from poslab.data.images import ImageSplit
from poslab.data.text import ByteText
from poslab.evaluators import Attention, Cost, Shift
from poslab.evaluators.base import Part, merge
from poslab.evaluators.groups import make_groups
from poslab.evaluators.history import seconds_to, step_of
from poslab.evaluators.lines import Subject
from poslab.evaluators.report import Section
from poslab.evaluators.shift import translate
from poslab.evaluators.table import print_section
from poslab.evaluators.timing import activation_bytes, forward_flops, without_positions
from poslab.models import GPT, ViT
from poslab.positions import NotDefined, Positions
from poslab.positions.learned import Learned
from poslab.positions.learned2d import Learned2d
from poslab.positions.none import NoPosition
from poslab.positions.rope import RoPE
from poslab.positions.rope2d import RoPE2d
from poslab.positions.shaw import Shaw
from poslab.results_file import COLUMNS

from .test_compare import make_run, read, settings


def randomised(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def text(context: int = 16) -> ByteText:
    generator = np.random.default_rng(0)
    documents = [generator.integers(97, 123, length, dtype=np.uint8).tobytes() for length in (300, 90, 200, 64)]
    return ByteText({"train": documents, "val": documents, "test": documents}, context)


def digits(images: int = 40) -> Digits:
    data = Digits()
    data.test = ImageSplit(data.test.images[:images], data.test.labels[:images])
    return data


def gpt(pos: Any = RoPE, **more: Any) -> GPT:
    sizes = {"vocab": 256, "context": 16, "dim": 16, "heads": 2, "depth": 2} | more
    return randomised(GPT(pos=partial(pos), **sizes))  # type: ignore[return-value]


def vit(pos: Any = RoPE2d, **more: Any) -> ViT:
    sizes = {"image_size": 8, "patch_size": 2, "channels": 1, "classes": 10, "dim": 16, "heads": 2, "depth": 2} | more
    return randomised(ViT(pos=partial(pos), **sizes))  # type: ignore[return-value]


# ------------------------------------------------------------------ shift


class Corner(nn.Module):
    """Answers 1 where the upper left pixel is lit, else 0."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, images: Tensor) -> Tensor:
        lit = (images[:, 0, 0, 0] > 0).long()
        return nn.functional.one_hot(lit, 10).float()


def test_a_picture_moves_as_it_says() -> None:
    image = torch.arange(1.0, 7.0).reshape(1, 1, 2, 3)
    ground = torch.full((1, 1, 1), -1.0)
    assert translate(image, 1, 0, ground)[0, 0].tolist() == [[-1, -1, -1], [1, 2, 3]]
    assert translate(image, -1, 0, ground)[0, 0].tolist() == [[4, 5, 6], [-1, -1, -1]]
    assert translate(image, 0, 2, ground)[0, 0].tolist() == [[-1, -1, 1], [-1, -1, 4]]
    assert translate(image, 0, -1, ground)[0, 0].tolist() == [[2, 3, -1], [5, 6, -1]]
    assert torch.equal(translate(image, 0, 0, ground), image)


def test_consistency_is_counted_over_four_directions() -> None:
    """One image lit in its corner leaves it on every side but one; a dark one stays what it was."""
    data = digits(2)
    images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    images[0, 0, :2, 0] = 255  # moved up by one pixel the corner stays lit
    data.test = ImageSplit(images, torch.tensor([1, 1]))
    shift = Shift(sizes=[1])
    assert shift.sizes(data) == [(0,), (1,)] == Shift(sizes=[0, 1]).sizes(data)
    assert shift.ranked(data, shift.sizes(data)) == (1,)
    still, moved = (shift.measure(Corner(), data, (by,)) for by in (0, 1))
    assert still.totals["consistency"].tolist() == [1, 1] and still.totals["accuracy"].tolist() == [1, 0]
    assert moved.totals["consistency"].tolist() == [0.25, 1] and moved.totals["accuracy"].tolist() == [0.25, 0]
    with pytest.raises(NotDefined, match="nothing is left"):
        shift.measure(Corner(), data, (8,))


def test_whole_patches_on_an_empty_ground_move_no_answer_without_a_reason() -> None:
    """A digit that stays whole within the image, in patches: NoPE does not see where patches are."""
    data = digits()
    images = torch.zeros(40, 1, 8, 8, dtype=torch.uint8)
    images[:, :, 2:6, 2:6] = torch.randint(0, 256, (40, 1, 4, 4), dtype=torch.uint8)
    data.test = ImageSplit(images, torch.randint(0, 10, (40,)))
    shift = Shift(batch_size=7)
    value = {pos: shift.measure(vit(pos), data, (2,)).value("consistency") for pos in (NoPosition, Learned2d)}
    assert value[NoPosition] == 1 and 0 < value[Learned2d] < 0.9
    assert shift.measure(vit(Learned2d), data, (0,)).value("consistency") == 1
    model = vit()
    parts = [shift.measure(model, data, (2,), Part(rank, 3)) for rank in range(3)]
    whole = shift.measure(model, data, (2,))
    assert np.array_equal(merge(parts).clusters, whole.clusters)
    assert merge(parts).value("loss") == pytest.approx(whole.value("loss"), abs=1e-6)


class Counter(nn.Module):
    """Answers with the length of its input, or with the last token."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.weight, self.counts = nn.Parameter(torch.zeros(())), counts

    def forward(self, tokens: Tensor, last: int) -> Tensor:
        answer = torch.full_like(tokens, tokens.shape[1]) if self.counts else tokens
        return nn.functional.one_hot(answer[:, -last:], 256).float()


def test_texts_behind_padding() -> None:
    data = text()
    shift = Shift(ratios=[0.25, 0.5, 1], count=9)
    assert shift.sizes(data) == [(0,), (4,), (8,), (16,)] and shift.window(data) == 8
    assert shift.ratio(data, (8,)) == 0.5 and Shift(ratios=[0.5]).sizes(digits(), (2, 2)) == [(0,), (1,)]
    for counts, moved in ((True, 0.0), (False, 1.0)):
        by = {size: shift.measure(Counter(counts), data, (size,)).value("consistency") for size in (0, 4)}
        assert by == {0: 1.0, 4: moved}
    # a learned table has a place for 8 + 8 tokens, and none for 8 + 16; rope reads on
    assert 0 < shift.measure(gpt(Learned), data, (8,)).value("consistency") < 1
    with pytest.raises(NotDefined, match="up to 16"):
        shift.measure(gpt(Learned), data, (16,))
    measured = shift.measure(gpt(), data, (16,))
    assert measured.weights.tolist() == [4] * 9 and measured.value("loss") > 0
    model = gpt()
    parts = merge([shift.measure(model, data, (16,), Part(rank, 2)) for rank in range(2)])
    assert np.array_equal(parts.clusters, measured.clusters) and np.array_equal(parts.weights, measured.weights)
    assert not shift.suits(Copy(length=4)) and shift.suits(data)
    # more of the same padding is nothing new to a model that cannot tell places, and something to one that can
    once, twice = (Shift(length=8).measure(gpt(pos, depth=1), data, (4,)) for pos in (NoPosition, Learned))
    assert once.value("consistency") != twice.value("consistency")


# ------------------------------------------------------------------ attention


def uniform(model: Any) -> Any:
    """Without scores every key that is visible gets the same weight."""
    with torch.no_grad():
        for block in model.trunk.blocks:
            block.attention.qkv.weight[: 2 * model.trunk.encoding.spec.dim] = 0
            block.attention.qkv.bias[: 2 * model.trunk.encoding.spec.dim] = 0
    return model


def test_uniform_attention_is_known() -> None:
    data = text()
    evaluator = Attention(sizes=[8, 16], count=5, batch_size=2)
    measured = evaluator.measure(uniform(gpt(NoPosition)), data, (8,))
    # query i sees keys 0 ... i: mean distance i / 2, entropy log(i + 1)
    entropy = np.mean([math.log(i + 1) for i in range(8)])
    assert len(measured) == 5 and set(measured.totals) == {
        "distance", "entropy", "relative_entropy", "distance@1", "distance@2", "entropy@1", "entropy@2",
    }  # fmt: skip
    assert measured.value("distance") == pytest.approx(np.mean(np.arange(8) / 2), rel=1e-5)
    assert measured.value("entropy@2") == pytest.approx(entropy, rel=1e-5)
    assert measured.value("relative_entropy") == pytest.approx(1, rel=1e-5)
    # all patches of 4 x 4, class token and register apart
    images = Attention(count=5).measure(uniform(vit(NoPosition, pool="class", registers=1)), digits(), (8, 8))
    grid = np.array([(row, column) for row in range(4) for column in range(4)], float)
    mean = np.linalg.norm(grid[:, None] - grid[None], axis=-1).mean()
    assert images.value("distance") == pytest.approx(mean, rel=1e-5)
    assert images.value("entropy") == pytest.approx(math.log(18), rel=1e-5)
    assert images.value("relative_entropy") == pytest.approx(1, rel=1e-5)


def test_attention_of_one_key() -> None:
    """Scores that single out the same key: distance to it, no entropy; strips and parts change nothing."""
    data, model = text(), gpt()
    whole = Attention(count=6).measure(model, data, (16,))
    parts = [Attention(count=6).measure(model, data, (16,), Part(rank, 4)) for rank in range(4)]
    for name in whole.totals:
        assert merge(parts).value(name) == pytest.approx(whole.value(name), rel=1e-5)
    assert 0 < whole.value("relative_entropy") < 1 and whole.value("distance@1") != whole.value("distance@2")
    assert not any(block.attention._forward_hooks for block in model.trunk.blocks)

    class First(NoPosition):
        def bias(self, q_pos: Positions, k_pos: Positions) -> Tensor:
            return -1e4 * (k_pos.axis(0) > 0).float().expand(2, len(q_pos), len(k_pos))

    measured = Attention(count=6).measure(uniform(gpt(First)), data, (16,))
    assert measured.value("distance") == pytest.approx(7.5) and measured.value("entropy") == pytest.approx(0, abs=1e-6)


def test_strips_of_queries_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = vit(pool="class"), digits(6)
    whole = Attention().measure(model, data, (8, 8))
    monkeypatch.setattr("poslab.evaluators.attention.STRIP_ELEMENTS", 6 * 2 * 17 * 3)
    strips = Attention().measure(model, data, (8, 8))
    for name in whole.totals:
        assert strips.totals[name] == pytest.approx(whole.totals[name], rel=1e-5)


def test_a_compiled_model_is_read_too() -> None:
    model, evaluator = gpt(), Attention(count=4)
    expected = evaluator.measure(model, text(), (16,))
    model.compile(backend="eager")
    with torch.no_grad():
        model(torch.zeros(4, 16, dtype=torch.long), last=1)
    measured = evaluator.measure(model, text(), (16,))
    for name in expected.totals:
        assert measured.totals[name] == pytest.approx(expected.totals[name])


# ------------------------------------------------------------------ cost


def test_flops_are_those_of_the_matrix_products() -> None:
    tokens = torch.randint(256, (1, 16))
    t, c, depth, vocab = 16, 16, 2, 256
    per_layer = 2 * t * c * (3 * c + c + 8 * c) + 2 * 2 * t * t * c
    assert forward_flops(gpt(NoPosition), tokens) == depth * per_layer + 2 * t * c * vocab
    assert forward_flops(gpt(RoPE), tokens) == forward_flops(gpt(NoPosition), tokens)
    more = forward_flops(gpt(Shaw), tokens) - forward_flops(gpt(NoPosition), tokens)
    assert more > 0  # q times the vectors of the distances


def test_activations_are_counted_once_each() -> None:
    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.map = nn.Linear(4, 4, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            y = self.map(x)
            return y * y

    # y for the square, and the log-probabilities with the scalar count of targets for the loss
    held = activation_bytes(Square(), torch.randn(3, 4), torch.zeros(3, dtype=torch.long))
    assert held == 4 * 12 + 4 * 12 + 4


def test_cost_rows(tmp_path: Path) -> None:
    data, model = text(), gpt(Learned)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    cost = Cost(ratios=[1, 2], repeats=4, batch_size=3)
    measured = cost.measure(model, data, (16,))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not model.training and all(parameter.grad is None for parameter in model.parameters())
    assert len(measured) == 4 and "memory" not in measured.totals and "target_time" not in measured.totals
    assert measured.value("parameters") == sum(parameter.numel() for parameter in model.parameters())
    assert measured.value("position_parameters") == 16 * 16
    assert measured.value("flops") == forward_flops(model, torch.zeros(1, 16, dtype=torch.long)) / 1e6
    for name in ("overhead", "inference_overhead", "step_time", "train_throughput", "throughput"):
        assert measured.value(name) > 0
    seconds = measured.weight("train_throughput")
    assert measured.value("train_throughput") == pytest.approx(4 * 3 * 16 / seconds.sum())
    assert measured.value("step_time") == pytest.approx(1000 * seconds.mean())
    assert measured.value("throughput") > measured.value("train_throughput")
    with pytest.raises(NotDefined, match="up to 16"):
        cost.measure(model, data, (32,))
    images = Cost(repeats=2, batch_size=3).measure(vit(Learned2d), digits(), (8, 8))
    assert images.value("train_throughput") == pytest.approx(2 * 3 / images.weight("train_throughput").sum())


def test_the_same_model_without_positions() -> None:
    learned, none = gpt(Learned), gpt(NoPosition)
    plain = without_positions(learned)
    assert not list(plain.trunk.position.parameters()) and list(learned.trunk.position.parameters())
    none.load_state_dict(plain.state_dict())
    tokens = torch.randint(256, (2, 16))
    with torch.no_grad():
        assert torch.equal(plain(tokens), none(tokens)) and not torch.equal(plain(tokens), learned(tokens))


def history(directory: Path, losses: list[float]) -> Path:
    """Throughput 100 samples a second up to step 10, then 50; validations at steps 20, 40, ..."""
    lines = ["step,epoch,train/samples_per_second,val/loss", "10,1,100,", "30,3,50,"]
    lines += [f"{20 * (n + 1)},1,,{loss}" for n, loss in enumerate(losses)]
    (directory / "metrics.csv").write_text("\n".join(lines) + "\n")
    return directory / "metrics.csv"


def test_time_to_a_loss(tmp_path: Path) -> None:
    assert step_of(1.5, [(20, 3.0), (40, 2.0), (60, 1.0), (80, 2.0)]) == 50
    assert step_of(3.5, [(20, 3.0), (40, 2.0)]) == 20
    assert seconds_to(50, [(10, 100.0), (30, 50.0)], 10) == pytest.approx(1 + 4 + 4)
    assert seconds_to(5, [(10, 100.0)], 10) == pytest.approx(0.5)
    (tmp_path / "config.yaml").write_text("global_batch_size: 10")
    path = history(tmp_path, [3.0, 2.0, 1.0])
    assert Cost(target=1.5, history=path).time_to_target() == ({"target_time": pytest.approx(9)}, {})
    reached, undefined = Cost(target=0.5, history=path).time_to_target()
    assert not reached and "never came to 0.5: its least was 1" in undefined["target_time"]
    for row, why in {"40,1,,2.0": "too short", "50,1,100,": "no validation loss"}.items():
        path.write_text(f"step,epoch,train/samples_per_second,val/loss\n{row}\n")
        assert why in Cost(target=1, history=path).time_to_target()[1]["target_time"]
    assert "no metrics.csv" in Cost(target=1, history=tmp_path / "no.csv").time_to_target()[1]["target_time"]


# ------------------------------------------------------------------ from runs to a report


def test_a_narrow_terminal_turns_the_table_of_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    empty = dict.fromkeys(COLUMNS, "") | {"size": "16", "status": "ok"}
    numbers = {"overhead": 1.25, "parameters": 1234567.0, "flops": 0.25}
    words = {"model": "gpt", "data": "copy", "train_size": "16", "reference": "16", "budget": "10 steps"}
    rows = [empty | {"metric": name, "value": str(n), "ci_low": "nan", "ci_high": "nan"} for name, n in numbers.items()]
    both = [Subject(pos, pos=pos, seed="0", settings={}, identity="p", rows=rows, **words) for pos in ("rope", "alibi")]
    section = Section(Cost, make_groups(both, Cost), [])
    for width in (200, 40):
        print_section(Console(width=width, no_color=True), section)
    wide, narrow = capsys.readouterr().out.split("at 16;")[:2]
    assert [line.split() for line in wide.splitlines() if " rope " in line] == [["rope", "1.250", "0.25", "1,234,567"]]
    assert [line.split() for line in narrow.splitlines() if "param" in line] == [
        ["parameters", "1,234,567", "1,234,567"]
    ]


def test_a_report_of_all_three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("rope", "learned"):
        run = make_run(tmp_path / "runs", word, word, "stdlib")
        history(run, [3.0, 2.0] if word == "rope" else [3.0, 2.9])
    make_run(tmp_path / "runs", "image", "rope2d", "digits")
    config = settings(tmp_path / "runs" / "*", tmp_path)
    base = {name: config["evaluate"][name] for name in ("skip", "checkpoint", "batch_size", "bootstrap", "confidence")}
    config["evaluate"] = base | {
        "shift": {"sizes": None, "ratios": [0.25, 0.5, 1], "length": None, "count": 20},
        "attention": {"sizes": None, "ratios": [1, 2], "count": 8},
        "cost": {"sizes": None, "ratios": [1, 2], "batch_size": 4, "repeats": 3, "target": 2.5},
    }
    report = compare(config)
    rows = {(row["run"], row["evaluator"], row["size"], row["metric"]): row for row in read(report)}
    assert rows["rope", "shift", "0", "consistency"]["value"] == "1.0"
    assert float(rows["rope", "shift", "8", "consistency"]["ratio"]) == 0.5
    assert rows["learned", "shift", "16", ""]["status"].startswith("not defined: Learned has positions up to 16")
    assert rows["learned", "attention", "32", ""]["status"].startswith("not defined")
    speed = {
        name: float(rows["rope", "cost", "16", "train_throughput"][name]) for name in ("value", "ci_low", "ci_high")
    }
    assert 0 < speed["ci_low"] <= speed["value"] <= speed["ci_high"]
    parameters = rows["image", "cost", "8", "parameters"]
    assert parameters["ci_low"] == "nan" and float(parameters["value"]) > 1000
    assert float(rows["rope", "cost", "16", "target_time"]["value"]) == pytest.approx(32 * (10 / 100 + 20 / 50))
    assert "never came to 2.5" in rows["learned", "cost", "16", "target_time"]["status"]
    assert (report / "report.md").read_text().count("| rope | gpt | rope |") == 1  # asked three things, one run
    told, page = capsys.readouterr().out, (report / "report.md").read_text()
    assert "parameters" in told and "* unmoved" in told
    head = next(line for line in page.splitlines() if line.startswith("| encoding | training step / without"))
    assert head.endswith("| training to the target loss, s |")
    line = next(line for line in page.split(head)[1].splitlines() if line.startswith("| rope |"))
    assert (
        line.rstrip(" |").endswith("| 16")
        and f"{int(float(rows['rope', 'cost', '16', 'parameters']['value'])):,}" in line
    )
    assert "never came to 2.5: its least was 2.9" in page and "**bold**: unmoved. Ranked at 4." in page
    assert "by layer, at 16" in page and page.count("![The same input, moved]") == 2
    with (report / "results.csv").open(newline="") as file:
        first = list(csv.DictReader(file))
    compare(config, quiet=True)
    assert read(report) == first  # nothing is timed a second time
