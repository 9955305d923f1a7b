"""Whole answers: a known model is scored as it is, as it would write them, and learning shows."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from poslab.data.addition import Addition
from poslab.data.associative import Associative
from poslab.data.copy import Copy
from poslab.data.digits import Digits
from poslab.data.passkey import Passkey
from poslab.data.reverse import Reverse
from poslab.data.synthetic import Synthetic
from poslab.data.text import IGNORE, ByteText
from poslab.evaluators import Length, Recall, figures
from poslab.evaluators.groups import make_groups
from poslab.evaluators.lines import Subject
from poslab.models import GPT
from poslab.models.cache import Cache
from poslab.positions import NotDefined
from poslab.positions.learned import Learned
from poslab.positions.rope import RoPE
from poslab.results_file import COLUMNS


class Oracle(nn.Module):
    """Knows the answers of all problems of a length, each token with probability 0.9; `wrong` are mistaken."""

    def __init__(self, data: Synthetic, length: int, count: int, wrong: dict[int, int]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.vocab = data.vocab
        batch = data.at(length, count)[torch.arange(count)]
        answers = batch["targets"].clamp(min=0)
        for problem, place in wrong.items():
            answers[problem, place] = data.padding
        self.known = dict(zip(map(bytes, batch["inputs"].byte()), answers, strict=True))

    def forward(self, tokens: Tensor, last: int) -> Tensor:
        answers = torch.stack([self.known[bytes(row)] for row in tokens.byte()])[:, -last:]
        right = F.one_hot(answers, self.vocab)
        return (0.9 * right + 0.1 * (1 - right) / (self.vocab - 1)).log()


def train(data: Synthetic, steps: int, pos: type = RoPE, dim: int = 32) -> GPT:
    torch.manual_seed(0)
    model = GPT(vocab=data.vocab, context=data.context, pos=partial(pos), dim=dim, heads=2, depth=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    for step in range(steps):
        batch = data.train[64 * step + torch.arange(64)]
        logits = model(batch["inputs"]).flatten(0, 1)
        F.cross_entropy(logits, batch["targets"].flatten(), ignore_index=IGNORE).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return model


def test_one_wrong_token_is_a_wrong_answer() -> None:
    data, count = Copy(length=4, symbols=9), 10
    oracle = Oracle(data, 6, count, wrong={})
    measured = Recall(count=count, batch_size=3).measure(oracle, data, (6,))
    assert measured.totals["exact_match"].tolist() == [1] * count and measured.value("accuracy") == 1
    assert measured.value("loss") == pytest.approx(-math.log(0.9))
    oracle = Oracle(data, 6, count, wrong={2: 6, 7: 11, 9: 0})  # first and last token of an answer, and no answer
    measured = Recall(count=count, batch_size=3).measure(oracle, data, (6,))
    assert np.flatnonzero(measured.totals["exact_match"] == 0).tolist() == [2, 7]
    assert measured.value("exact_match") == pytest.approx(0.8)
    assert measured.value("accuracy") == pytest.approx(1 - 2 / 60)
    assert measured.value("loss") == pytest.approx(-(58 * math.log(0.9) + 2 * math.log(0.1 / 10)) / 60)
    assert measured.value("chance") == pytest.approx(9**-6) and len(measured) == count
    assert measured.clusters.tolist() == list(range(count))


def decoded(model: GPT, inputs: Tensor, targets: Tensor) -> Tensor:
    """(B,) whether greedy decoding with a cache writes the answers; what is no answer is given to it."""
    cache = Cache(len(model.trunk.blocks), inputs.shape[1])
    right = torch.ones(len(inputs), dtype=torch.bool)
    step = inputs[:, :1]
    for place in range(inputs.shape[1]):
        written = model(step, cache)[:, -1].argmax(-1)
        asked = targets[:, place] != IGNORE
        right &= ~asked | (written == targets[:, place])
        if place + 1 < inputs.shape[1]:
            step = torch.where(asked, written, inputs[:, place + 1])[:, None]
    return right


@pytest.mark.parametrize(
    ("data", "length"),
    [
        (Copy(3, symbols=2), 3), (Reverse(3, symbols=2), 3), (Addition(1), 1), (Passkey(3, digits=1, filler=2), 3),
        (Associative(3, keys=4, values=2), 3),
    ],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
def test_exact_match_is_what_greedy_decoding_writes(data: Synthetic, length: int) -> None:
    model = train(data, steps=25, dim=16).eval()
    batch = data.at(length, 100)[torch.arange(100)]
    exact = Recall(count=100).measure(model, data, (length,)).totals["exact_match"]
    assert 0 < exact.mean() < 1  # or there were nothing to compare
    with torch.no_grad():
        assert exact.tolist() == decoded(model, **batch).tolist()
    if data.name != "associative":  # whose keys are given between the values
        answer = int((batch["targets"][0] != IGNORE).sum())
        prompt = batch["inputs"][:, : batch["inputs"].shape[1] + 1 - answer]
        written = model.generate(prompt, answer, temperature=0)
        assert exact.tolist() == (written[:, -answer:] == batch["targets"][:, -answer:]).all(dim=1).tolist()


@pytest.mark.parametrize(
    ("data", "sizes"),
    [(Reverse(3, symbols=4), [2, 3]), (Passkey(8, digits=2, filler=4), [2, 8, 10])],
    ids=["reverse", "passkey"],
)
def test_a_gpt_learns_it(data: Synthetic, sizes: list[int]) -> None:
    recall = Recall(sizes, count=200)
    model = train(data, steps=150)
    for size in recall.sizes(data):
        measured = recall.measure(model, data, size)
        assert measured.value("exact_match") > 0.5 > 5 * measured.value("chance")


def test_a_figure_shows_what_guessing_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every length that some encoding is defined at."""
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "save", lambda path, figure, axes, group: drawn.append(axes))
    subjects = []
    for pos, lengths in (("rope", ("2", "4")), ("learned", ("2",))):
        words = {"pos": pos, "seed": "0", "model": "gpt", "data": "copy", "train_size": "2", "reference": "2"}
        rows = [
            dict.fromkeys(COLUMNS, "")
            | {"size": size, "metric": metric, "value": value, "ci_low": value, "ci_high": value, "status": "ok"}
            for size in lengths
            for metric, value in (("exact_match", "0.5"), ("chance", str(4.0 ** -int(size))), ("loss", "1"))
        ]
        subjects.append(Subject(pos, **words, budget="", settings={}, identity="", rows=rows))
    exact, loss = make_groups(subjects, Recall)[0]
    for group in (exact, loss):
        figures.draw(tmp_path / "figure.png", group, Recall, ["learned", "rope"])
    lines = {line.get_label(): line for line in drawn[0].get_lines()}
    assert [*lines["chance"].get_xdata()] == [2, 4]
    assert [*lines["chance"].get_ydata()] == pytest.approx([100 / 16, 100 / 256])
    assert "chance" not in {line.get_label() for line in drawn[1].get_lines()}


def test_what_is_asked_of_whom() -> None:
    recall = Recall(ratios=[0.5, 2])
    data = Associative(4, keys=8)
    texts = ByteText({name: [b"dense text"] for name in ("train", "val", "test")}, context=4)
    assert recall.suits(data) and not recall.suits(Digits()) and not recall.suits(texts)
    assert Length().suits(texts) and not Length().suits(data)
    assert recall.sizes(data) == [(2,), (4,), (8,)] and recall.trained(data) == (4,)
    assert recall.protocol(data) == "recall the value of each key, 1,000 problems of each length in pairs"
    model = GPT(vocab=data.vocab, context=data.context, pos=partial(Learned), dim=16, heads=2, depth=1)
    with pytest.raises(NotDefined, match=r"positions up to 15.*31"):
        recall.measure(model, data, (8,))
    with pytest.raises(NotDefined, match="9 pairs want 9 keys"):
        recall.measure(model, data, (9,))
    with pytest.raises(ValueError, match="use 1 or more"):
        Recall(count=0)
