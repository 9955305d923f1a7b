"""Problems agree with another way of solving them, all lengths are as frequent, and no split knows another."""

from __future__ import annotations

import re
from itertools import permutations

import pytest
import torch

from poslab.data.addition import Addition
from poslab.data.associative import Associative
from poslab.data.copy import Copy
from poslab.data.passkey import Passkey
from poslab.data.reverse import Reverse
from poslab.data.synthetic import Draw, Problems, Synthetic
from poslab.data.text import IGNORE


def associated(text: str) -> str:
    """Values of the keys that are met again, one after the other."""
    known: dict[str, str] = {}
    answer = ""
    for key, value in zip(text[::2], text[1::2], strict=True):
        answer += known.get(key, "")
        known.setdefault(key, value)
    return answer


def added(text: str, plain: bool = False) -> str:
    a, b = re.split(r"[+=]", text)[:2]
    total = f"{int(a) + int(b):0{len(a) + 1}d}"
    return total if plain else total[::-1]


CASES = {
    "copy": (Copy(6, symbols=5), lambda text: text.split("|")[0], lambda n: (2 * n + 1, n)),
    "reverse": (Reverse(6, symbols=30), lambda text: text.split("|")[0][::-1], lambda n: (2 * n + 1, n)),
    "addition": (Addition(5), added, lambda n: (3 * n + 3, n + 1)),
    "plain": (Addition(5, order="plain"), lambda text: added(text, plain=True), lambda n: (3 * n + 3, n + 1)),
    "passkey": (Passkey(9, digits=3), lambda text: re.search(r"#(\d{3}).*#", text)[1], lambda n: (n + 8, 3)),  # type: ignore[index]
    "associative": (Associative(6, keys=12, values=4), associated, lambda n: (4 * n, n)),
}


def written(data: Synthetic, batch: dict[str, torch.Tensor]) -> list[tuple[str, str]]:
    """(the whole problem, its targets) as text; the last token is only a target."""
    texts = []
    for inputs, targets in zip(batch["inputs"].tolist(), batch["targets"].tolist(), strict=True):
        last = [targets[-1]] if targets[-1] != IGNORE else []
        texts.append((data.decode(inputs + last).rstrip(), data.decode([each for each in targets if each != IGNORE])))
    return texts


@pytest.mark.parametrize("name", CASES)
def test_another_solver_finds_the_targets(name: str) -> None:
    data, solve, count = CASES[name]
    batch = data.train[torch.arange(400)]
    assert batch["inputs"].shape == batch["targets"].shape == (400, data.context)
    right = batch["targets"][:, :-1] == batch["inputs"][:, 1:]  # a target is the token after it
    assert (right | (batch["targets"][:, :-1] == IGNORE)).all()
    lengths = []
    for text, answer in written(data, batch):
        assert solve(text) == answer and data.decode(data.encode(text)) == text
        lengths.append(next(n for n in range(1, data.length + 1) if count(n) == (len(text), len(answer))))
    frequent = torch.tensor(lengths).bincount(minlength=data.length + 1)[1:]
    assert frequent.min() > 0.6 * 400 / data.length  # equally likely lengths: four deviations
    longer, solved = data.at(2 * data.length, 20), 0
    for text, answer in written(data, longer[torch.arange(20)]):
        solved += solve(text) == answer and (len(text), len(answer)) == count(2 * data.length)
    assert solved == 20


@pytest.mark.parametrize("name", CASES)
def test_a_sample_is_a_function_of_its_number(name: str) -> None:
    data, _, _ = CASES[name]
    batch = data.train[torch.arange(50)]
    padded = data.train[torch.cat((torch.tensor([-1]), torch.arange(50).flip(0)))]
    for key in ("inputs", "targets"):
        assert torch.equal(padded[key][1:], batch[key].flip(0))
        assert torch.equal(data.train[torch.tensor([31, 4])][key], batch[key][[31, 4]])
    assert (padded["targets"][0] == IGNORE).all() and (padded["inputs"][0] == data.padding).all()
    assert len(data.fingerprint()) == 16


def test_no_problem_is_in_two_splits() -> None:
    data = Copy(length=12, symbols=16, lengths="fixed", samples=3000)
    seen = [
        {text for text, _ in written(data, split[torch.arange(len(split))])}
        for split in (data.train, data.val, data.test, data.at(12, 1000))
    ]
    assert [*map(len, seen)] == [3000, 1000, 1000, 1000] and len(set.union(*seen)) == 6000
    assert data.context == 24 and all(len(text) == 25 for text in seen[0])  # fixed: nothing is shorter
    assert data.fingerprint() != Copy(length=12, symbols=16).fingerprint()


def test_symbols_are_equally_likely() -> None:
    draw = Draw(torch.arange(4000), stream=0)
    symbols = draw.symbols(40, 16)
    for part in (symbols, symbols[:, 0], symbols[0::2, 7]):
        share = part.flatten().bincount(minlength=16) / part.numel()
        assert (share - 1 / 16).abs().max() < 4 * (1 / 16 / part.numel()) ** 0.5
    orders = draw.order(3)
    assert torch.equal(orders.sort(dim=1).values, torch.arange(3).expand(4000, 3))
    assert (orders @ torch.tensor([9, 3, 1])).unique(return_counts=True)[1].min() > 4000 / 6 * 0.85


def test_what_is_asked_for_may_be_anywhere() -> None:
    keys = Passkey(9, digits=3)
    places = torch.tensor([text.index("#") for text, _ in written(keys, keys.at(9, 1000)[torch.arange(1000)])])
    assert places.bincount(minlength=10).min() > 100 * 0.6  # four deviations
    pairs = Associative(3, keys=5)
    texts = [text for text, _ in written(pairs, pairs.at(3, 1000)[torch.arange(1000)])]
    orders = [tuple(text[:6:2].index(key) for key in text[6::2]) for text in texts]
    assert min(orders.count(order) for order in permutations(range(3))) > 1000 / 6 * 0.7
    met = torch.tensor([ord(key) for text in texts for key in text[:6:2]]).unique(return_counts=True)[1]
    assert len(met) == 5 and met.min() > 600 * 0.8


@pytest.mark.parametrize(
    ("data", "length", "chance"),
    [
        (Copy(4, symbols=2), 3, 1 / 8), (Reverse(4, symbols=3), 2, 1 / 9), (Addition(4), 1, 1 / 20),
        (Addition(4, order="plain"), 1, 1 / 20), (Passkey(4, digits=1), 7, 1 / 10),
        (Associative(4, values=3), 2, 1 / 9),
    ],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
def test_chance_is_what_a_guesser_reaches(data: Synthetic, length: int, chance: float) -> None:
    """He has seen which tokens stand at each place of an answer, and takes any of them."""
    count = 20_000
    targets = data.at(length, count)[torch.arange(count)]["targets"]
    answers = targets[:, targets[0] != IGNORE]
    generator = torch.Generator().manual_seed(0)
    guesses = []
    for place in answers.T:
        kinds = place.unique()
        guesses.append(kinds[torch.randint(len(kinds), (count,), generator=generator)])
    solved = (torch.stack(guesses, dim=1) == answers).all(dim=1).double().mean().item()
    assert data.chance(length) == pytest.approx(chance)
    assert abs(solved - chance) < 4 * (chance / count) ** 0.5


def test_what_a_person_can_mend() -> None:
    for make, sentence in (
        (lambda: Copy(length=0), "length >= 1"),
        (lambda: Copy(symbols=1), "data.symbols=1"),
        (lambda: Copy(symbols=10**5), "letters"),
        (lambda: Copy(lengths="some"), "varied, fixed"),
        (lambda: Addition(order="random"), "reversed, plain"),
        (lambda: Passkey(digits=0), "digits >= 1"),
        (lambda: Associative(values=1), "data.values=1"),
        (lambda: Associative(length=80), "80 pairs want 80 keys, there are 64"),
        (lambda: Associative(keys=8).at(9, 1), "raise data.keys"),
        (lambda: Copy(symbols=3).encode("xyz"), r"data=copy is made of abc\|"),
        (lambda: Copy().encode("a "), "made of"),  # padding is no prompt
    ):
        with pytest.raises(ValueError, match=sentence):
            make()
    assert isinstance(Copy().at(3, 5), Problems)
