"""A trained GPT writes; what it cannot do is a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from poslab.generate import main
from poslab.training.fit import fit
from tests.configuration import GPT, VIT, configuration


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    parent = tmp_path_factory.mktemp("runs")
    words = {"rope": [*GPT, "pos=rope"], "learned": [*GPT, "pos=learned"], "vit": VIT}
    return {name: str(fit(configuration(*word, "steps=1", f"runs={parent}"))) for name, word in words.items()}


def test_it_continues_the_prompt(runs: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([runs["rope"], "abcd|", "--tokens", "30", "--temperature", "0"]) == 0
    greedy = capsys.readouterr().out.strip()
    assert greedy.startswith("abcd|") and len(greedy) == 35  # past the trained length of 8: rope goes on
    assert main([runs["rope"], "abcd|", "--tokens", "30", "--top-k", "1"]) == 0
    assert capsys.readouterr().out.strip() == greedy
    sampled = []
    for seed in ("0", "0", "1"):
        main([runs["rope"], "abcd|", "--tokens", "30", "--seed", seed])
        sampled.append(capsys.readouterr().out)
    assert sampled[0] == sampled[1] != sampled[2]


@pytest.mark.parametrize(
    ("name", "words", "sentence"),
    [
        ("learned", ["abcd|", "--tokens", "30"], "positions up to 8, the input reaches 35"),
        ("vit", ["abcd|"], "only a GPT writes text"),
        ("rope", [""], "prompt is empty"),
        ("rope", ["abcd|", "--tokens", "-1"], "new >= 0"),
        ("rope", ["ABC"], "made of abc"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    runs: dict[str, str], capsys: pytest.CaptureFixture[str], name: str, words: list[str], sentence: str
) -> None:
    assert main([runs[name], *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_missing_run_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none"), "a"]) == 2
    assert "does not exist" in capsys.readouterr().err
