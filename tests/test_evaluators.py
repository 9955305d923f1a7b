"""Evaluators: the same questions to everyone, sums over sums, and rows that are kept apart."""

from __future__ import annotations

import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from poslab.data.copy import Copy
from poslab.data.digits import Digits
from poslab.data.images import ImageSplit
from poslab.data.text import IGNORE, ByteText, Windows
from poslab.evaluators import Blocks, Length, Recall, Resolution, Shift
from poslab.evaluators.base import Part, merge, size_ratio, size_word
from poslab.evaluators.blocks import position_buckets
from poslab.evaluators.groups import make_groups
from poslab.evaluators.lines import Subject
from poslab.models import GPT, ViT
from poslab.positions import NotDefined
from poslab.positions.learned import Learned
from poslab.positions.rope import RoPE
from poslab.positions.rope2d import RoPE2d
from poslab.results_file import COLUMNS, Results


def randomised(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def text(context: int = 16) -> ByteText:
    generator = np.random.default_rng(0)
    documents = [generator.integers(97, 123, length, dtype=np.uint8).tobytes() for length in (300, 90, 200, 64)]
    return ByteText({"train": documents, "val": documents, "test": documents}, context)


def gpt(data: ByteText | Copy, pos: type = RoPE) -> nn.Module:
    return randomised(GPT(vocab=data.vocab, context=data.context, pos=partial(pos), dim=16, heads=2, depth=2))


class Oracle(nn.Module):
    """Gives logits whose loss at every position is known, and counts its calls."""

    def __init__(self, nll: Tensor, vocab: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.nll, self.vocab = nll, vocab

    def forward(self, tokens: Tensor, last: int) -> Tensor:
        # token 0 is always the target; log p(0) = -nll
        p = torch.exp(-self.nll[tokens[:, 0]])[:, None].expand(-1, last)
        rest = ((1 - p) / (self.vocab - 1))[..., None].expand(-1, -1, self.vocab - 1)
        return torch.cat((p[..., None], rest), dim=-1).log()


# ------------------------------------------------------------------ what is measured


def test_every_length_scores_the_same_tokens() -> None:
    data, seen = text(), {}

    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(()))

        def forward(self, tokens: Tensor, last: int) -> Tensor:
            seen.setdefault(tokens.shape[1], []).append((tokens[:, -last:], last))
            return torch.zeros(*tokens[:, -last:].shape, data.vocab)

    evaluator = Length(ratios=[0.5, 1, 2, 4], targets=8, batch_size=8)
    measured = [evaluator.measure(Spy(), data, size) for size in evaluator.sizes(data)]
    inputs = [torch.cat([tokens for tokens, _ in calls]) for calls in seen.values()]
    assert sorted(seen) == [8, 16, 32, 64]
    assert all(torch.equal(tokens, inputs[0]) for tokens in inputs)
    assert {last for calls in seen.values() for _, last in calls} == {8}  # no logits in front of the targets
    assert all(np.array_equal(each.clusters, measured[0].clusters) for each in measured)
    assert max(len(tokens) for tokens, _ in seen[64]) == 2  # 8 sequences of 16 tokens have the room of 2 of 64
    assert measured[0].value("loss") == pytest.approx(math.log(256))
    assert measured[0].value("bits_per_byte") == pytest.approx(8)


def test_sum_over_sum() -> None:
    """4 tokens at nll 1 and 2 tokens at nll 4: 12 / 6, not (1 + 4) / 2."""
    targets = torch.zeros(2, 4, dtype=torch.long)
    targets[1, :2] = IGNORE

    class Uneven:
        kind, dense, context, bytes_per_token = "text", True, 4, None

        def windows(self, *_: int) -> Windows:
            inputs = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1]])
            return Windows(inputs, targets, torch.tensor([0, 1]), "uneven")

    measured = Length(ratios=[1], targets=4).measure(Oracle(torch.tensor([1.0, 4.0])), Uneven(), (4,))
    assert measured.value("loss") == pytest.approx(2.0, abs=1e-6)
    assert measured.weights.tolist() == [4, 2]


@pytest.mark.parametrize("kind", ["image", "text", "copy"])
def test_order_and_batches_do_not_matter(kind: str) -> None:
    if kind == "image":
        data, make, metric = Digits(), partial(Resolution, ratios=[0.75, 1, 1.5]), "loss"
        data.test = ImageSplit(data.test.images[:60], data.test.labels[:60])
        pos = {"pos": partial(RoPE2d), "dim": 16, "heads": 2, "depth": 1}
        model = randomised(ViT(image_size=8, patch_size=2, channels=1, classes=10, **pos))
    else:
        data = text() if kind == "text" else Copy(length=4)
        make = partial(Length, targets=8) if kind == "text" else Recall
        make = partial(make, ratios=[0.5, 1, 2, 4], count=25)
        model, metric = gpt(data), "loss"
    model.train()
    evaluator = make(batch_size=250)
    sizes = evaluator.sizes(data, (2, 2) if kind == "image" else None)
    upwards = [evaluator.measure(model, data, size) for size in sizes]
    downwards = [evaluator.measure(model, data, size) for size in reversed(sizes)][::-1]
    small = [make(batch_size=7).measure(model, data, size) for size in sizes]
    assert model.training and next(model.parameters()).requires_grad
    for a, b, c in zip(upwards, downwards, small, strict=True):
        for name, total in a.totals.items():
            assert np.array_equal(total, b.totals[name])
            assert a.value(name) == pytest.approx(c.value(name), abs=1e-6)
    assert len({each.value(metric) for each in upwards}) > 1


def test_every_image_counts_once() -> None:
    """The last batch is not padded: n is the test split, at any batch size."""
    data = Digits()
    model = randomised(
        ViT(image_size=8, patch_size=4, channels=1, classes=10, pos=partial(RoPE2d), dim=16, heads=2, depth=1)
    )
    model.eval()
    measured = Resolution(batch_size=7).measure(model, data, (8, 8))
    with torch.no_grad():
        right = (model(data.prepare(data.test.images)).argmax(-1) == data.test.labels).sum()
    assert len(measured) == 360 and measured.totals["accuracy"].sum() == right


def test_some_of_the_images_are_those_of_all() -> None:
    """Evenly from the first to the last, each with the answer it has among all; two processes share them."""
    data = Digits()
    model = randomised(
        ViT(image_size=8, patch_size=4, channels=1, classes=10, pos=partial(RoPE2d), dim=16, heads=2, depth=1)
    )
    for kind, size in ((Resolution, (8, 8)), (Shift, (1,))):
        everything, evaluator = kind(), kind(images=50)
        every, some = everything.measure(model, data, size), evaluator.measure(model, data, size)
        assert len(some) == 50 and some.clusters[[0, -1]].tolist() == [0, 359] and len(set(some.clusters)) == 50
        assert set(np.diff(some.clusters)) == {7, 8}
        for name, total in some.totals.items():
            assert total == pytest.approx(every.totals[name][some.clusters], abs=1e-6)
        halves = [evaluator.measure(model, data, size, Part(rank, 2)) for rank in range(2)]
        assert merge(halves).value("loss") == pytest.approx(some.value("loss"), abs=1e-6)
        assert "50 of 360 test images" in evaluator.protocol(data)
        assert "all 360 test images" in everything.protocol(data) and "all 360" in kind(images=999).protocol(data)
        with pytest.raises(ValueError, match="images=0 counts something"):
            kind(images=0)


def test_two_processes_count_everything_once() -> None:
    """Losses 0, 0, 0, 0, 1 on two ranks: mean .2 of 5, whatever the ranks pad; and one sample on two."""
    data, losses = text(), torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0])

    class Five:
        kind, dense, context, bytes_per_token = "text", True, 4, None

        def __init__(self, samples: int) -> None:
            self.samples = samples

        def windows(self, *_: int) -> Windows:
            inputs = torch.arange(self.samples)[:, None].expand(-1, 4)
            return Windows(inputs, torch.zeros(self.samples, 4, dtype=torch.long), torch.arange(self.samples), "five")

    length = Length(ratios=[1], targets=4, batch_size=2)
    for samples, mean in ((5, 0.2), (1, 0.0)):
        parts = [length.measure(Oracle(losses), Five(samples), (4,), Part(rank, 2)) for rank in range(2)]
        whole = merge(parts)
        assert len(whole) == samples and whole.value("loss") == pytest.approx(mean, abs=1e-7)
        assert whole.clusters.tolist() == list(range(samples))
    # every evaluator, windows and blocks of unequal documents
    copy = Copy(length=4)
    for evaluator, on in (
        (Length(sizes=[32], targets=8, count=25), data), (Blocks(sizes=[32], count=9), data), (Recall(count=5), copy),
    ):  # fmt: skip
        model = gpt(on)
        for world in (2, 3):
            alone = evaluator.measure(model, on, (16,))
            whole = merge([evaluator.measure(model, on, (16,), Part(rank, world)) for rank in range(world)])
            assert alone.totals.keys() == whole.totals.keys() and np.array_equal(alone.clusters, whole.clusters)
            for name in alone.totals:
                assert whole.value(name) == pytest.approx(alone.value(name), abs=1e-6)


def test_blocks_score_every_token_of_the_same_text() -> None:
    """Blocks of any size hold the same targets; the loss is that of the buckets together."""
    data = text()
    whole, halves = data.blocks(64, 64, 100), data.blocks(16, 64, 100)
    assert torch.equal(whole.targets.flatten(), halves.targets.flatten()) and len(halves) == 4 * len(whole)
    with_rest = data.blocks(24, 64, 100)
    assert len(with_rest) == 2 * len(whole) and torch.equal(with_rest.targets[0], whole.targets[0, :24])
    assert len(data.blocks(16, 64, 2)) == 8
    blocks = Blocks(sizes=[64], count=9)
    measured = blocks.measure(gpt(data), data, (16,))
    parts = [name for name in measured.totals if "@" in name]
    assert parts == ["loss@0", "loss@1", "loss@2-3", "loss@4-7", "loss@8-15"]
    assert sum(measured.weight(name)[0] for name in parts) == 16
    assert sum(measured.totals[name] for name in parts) == pytest.approx(measured.totals["loss"])
    assert position_buckets(11)[-2:] == [("4-7", 4, 8), ("8-10", 8, 11)] and position_buckets(1) == [("0", 0, 1)]
    with pytest.raises(NotDefined, match="No test document"):
        Blocks(sizes=[4096]).measure(gpt(data), data, (16,))
    with pytest.raises(NotDefined, match=r"evaluate\.blocks\.history"):
        Blocks(sizes=[32], history=16).measure(gpt(data), data, (32,))


def test_a_batch_that_does_not_fit_is_halved() -> None:
    data, sizes = text(), []

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(()))

        def forward(self, tokens: Tensor, last: int) -> Tensor:
            sizes.append(len(tokens))
            if len(tokens) > room:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return torch.zeros(len(tokens), last, data.vocab)

    evaluator, room = Length(sizes=[32], targets=8, count=25, batch_size=16), 3
    measured = evaluator.measure(Small(), data, (16,))
    assert sizes[:3] == [16, 8, 4] and max(sizes[3:]) == 2 and measured.value("loss") == pytest.approx(math.log(256))
    room = 0
    with pytest.raises(torch.OutOfMemoryError):
        evaluator.measure(Small(), data, (16,))


def test_sizes() -> None:
    data = Digits()
    assert Resolution(ratios=[0.75, 1, 1.25, 2]).sizes(data, (4, 4)) == [(8, 8), (16, 16)]  # 6 and 10 both round to 8
    words = [size_word(size) for size in Resolution(sizes=["8x16", 4, [12, 4]]).sizes(data)]
    assert words == ["4", "12x4", "8", "8x16"]  # the trained size is always there
    assert size_ratio((8, 32), (8, 8)) == pytest.approx(2)
    assert Length(sizes=64).sizes(text()) == [(16,), (64,)]
    for bad in ("8y9", "0", "8x8x8", -4, "4.5"):
        with pytest.raises(ValueError, match="is no size"):
            Resolution(sizes=[bad]).sizes(data)
    with pytest.raises(ValueError, match="is no size"):
        Length(sizes=["8x16"]).sizes(text())


def test_not_defined_says_why() -> None:
    data = text()
    with pytest.raises(NotDefined, match=r"16.*32"):
        Length(ratios=[1, 2], targets=8).measure(gpt(data, Learned), data, (32,))
    with pytest.raises(NotDefined, match=r"evaluate\.length\.targets=4"):
        Length(ratios=[0.25, 1], targets=8).measure(gpt(data), data, (4,))
    with pytest.raises(NotDefined, match=r"evaluate\.length\.history=32"):
        Length(sizes=[32], history=16, targets=8).measure(gpt(data), data, (32,))
    with pytest.raises(NotDefined, match="No test document"):
        Length(sizes=[4096], targets=8).measure(gpt(data), data, (16,))
    model = ViT(image_size=8, patch_size=4, channels=1, classes=10, pos=partial(RoPE2d), dim=16, heads=2, depth=1)
    with pytest.raises(NotDefined, match="use 12x8"):
        Resolution().measure(model, Digits(), (11, 8))


# ------------------------------------------------------------------ rows and groups


def row(**columns: str) -> dict[str, str]:
    return dict.fromkeys(COLUMNS, "") | {"status": "ok"} | columns


def test_rows_are_replaced_and_survive_a_cut(tmp_path) -> None:
    results = Results(tmp_path / "new" / "results.csv")
    results.add([row(checkpoint_sha="a", size="8", status='failed: x, "y"\nz')])
    assert results.final() == (set(), set())
    results.add([row(checkpoint_sha="b", size="8", status="not defined: why")])
    results.add([row(checkpoint_sha="a", size="8", metric=metric) for metric in ("accuracy", "loss")])
    assert [(each["checkpoint_sha"], each["metric"]) for each in results.read()] == [
        ("b", ""), ("a", "accuracy"), ("a", "loss"),
    ]  # fmt: skip
    assert [*map(len, results.final())] == [2, 1]
    with results.path.open("a") as file:
        file.write("half,a,row")
    assert len(results.read()) == 3
    results.path.write_text("other,columns\n1,2\n")
    with pytest.raises(ValueError, match="move it away"):
        results.read()


def subject(pos: str, seed: int, accuracy: float, **options: str) -> Subject:
    rows = [
        row(
            size="8", metric="accuracy", value=str(accuracy), ci_low=str(accuracy - 0.01), ci_high=str(accuracy + 0.01)
        ),
        row(size="8", metric="loss", value="1", ci_low="1", ci_high="1"),
        row(size="16", status="not defined: too large")
        if pos == "learned"
        else row(size="16", metric="accuracy", value=str(accuracy / 2), ci_low="0", ci_high="1"),
    ]
    words = {
        "model": "vit",
        "data": "digits",
        "train_size": "8",
        "reference": "8",
        "budget": options.pop("budget", "10 steps"),
    }
    return Subject(f"{pos}_{seed}", pos=pos, seed=str(seed), settings=options, identity="p", rows=rows, **words)


def test_groups_are_not_mixed_and_seeds_are_merged() -> None:
    subjects = [subject("rope2d", seed, 0.90 + seed / 100) for seed in range(3)]
    subjects += [subject("learned", 0, 0.95), subject("rope2d", 0, 0.99, budget="20 steps")]
    (short, loss), (long, _) = make_groups(subjects, Resolution)
    assert (short.metric_name, loss.metric_name) == ("accuracy", "loss")
    assert [len(group.lines) for group in (short, long)] == [2, 1]
    assert [line.label for line in short.lines] == ["learned", "rope2d"]  # best first
    learned, rope = short.lines
    assert rope.text("8", short.metric) == "91.0 ± 1.0" and learned.text("8", short.metric) == "95.0 [94.0, 96.0]"
    assert learned.text("16", short.metric) == "not defined"
    # another learning rate is another line, not another seed
    subjects += [subject("learned", 1, 0.9, **{"optim.lr": "0.1"})]
    labels = [line.label for line in make_groups(subjects, Resolution)[0][0].lines]
    assert labels == ["learned optim.lr=None", "rope2d", "learned optim.lr=0.1"]
    # another model size is another group, and its title says so
    titles = [
        group.title for group, _ in make_groups([subject("a", 0, 0.5, **{"model.depth": d}) for d in "12"], Resolution)
    ]
    assert titles == ["vit on digits, 10 steps, model.depth=1", "vit on digits, 10 steps, model.depth=2"]


def test_a_machine_that_is_too_small_is_an_error_and_no_kill() -> None:
    """Linux grants memory that it does not have and kills who uses it; under the limit the request fails."""
    code = (
        "import torch; from pathlib import Path; from poslab.evaluators import memory\n"
        "memory.RESERVE = 0.1\n"
        "much = int(0.3 * 1024 * memory._kilobytes(Path('/proc/meminfo'), 'MemAvailable:'))\n"
        "torch.empty(much, dtype=torch.uint8)\n"  # never touched
        "memory.limit_memory(); torch.ones(1000)\n"
        "try: torch.empty(much, dtype=torch.uint8)\n"
        "except RuntimeError as error: print(memory.is_out_of_memory(error))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr
