"""The gallery says what encodings say; the README's table says what their classes claim."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from poslab import gallery
from poslab.catalogue import END, README, START, table
from poslab.cli.configs import Configs
from poslab.errors import UsageError
from poslab.gallery.__main__ import main
from poslab.gallery.panels import IMAGE, TEXT, panels
from poslab.positions.alibi import ALiBi
from poslab.positions.learned import Learned
from poslab.positions.ops import slopes
from poslab.positions.rope import RoPE
from poslab.positions.rope2d import RoPE2d

WORDS = Configs("train").options("pos")


def test_scores_are_the_formula() -> None:
    """Ones turned by RoPE: the sum of 2 cos(n theta_c) over pairs; ALiBi: the constant minus the slope times n."""
    (trained, past) = panels(RoPE(TEXT))
    assert "trained" in trained.title and past.values is not None and past.values.shape == (4, 128)
    for n in (0, 1, 63, 127):
        expected = sum(2 * math.cos(n * 10_000 ** (-2 * c / 32)) for c in range(16)) / math.sqrt(32)
        assert past.values[2, n].item() == pytest.approx(expected, abs=1e-4)
    alibi = panels(ALiBi(TEXT))[1].values
    assert alibi is not None
    torch.testing.assert_close(alibi[:, 0] - alibi[:, 5], 5 * slopes(4))


def test_maps_are_centred() -> None:
    """The score of the centre with itself is the largest of the map, whichever way the grid is longer."""
    found = panels(RoPE2d(IMAGE), heads=2)
    assert len(found) == 4 and [tuple(panel.values.shape) for panel in found] == [(12, 16)] * 2 + [(24, 32)] * 2  # type: ignore[union-attr]
    for panel in found:
        rows, columns = panel.values.shape  # type: ignore[union-attr]
        assert panel.values.argmax() == rows // 2 * columns + columns // 2  # type: ignore[union-attr]


def test_what_is_not_defined_is_not_drawn() -> None:
    trained, past = panels(Learned(TEXT))
    assert trained.values is not None and past.values is None
    torch.testing.assert_close(trained.values.diagonal(), torch.ones(64))


def test_the_sheet_holds_every_word_that_says_something() -> None:
    figure = gallery.sheet()
    titles = {axes.get_title().partition(" ")[0] for axes in figure.axes}
    assert set(WORDS) - titles == {"none"}


def test_a_page_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    for line in (["rope", "pos/scaling=yarn", "pos.scaling.factor=4"], ["rope2d+learned"]):
        assert main(line) == 0
        assert Path(capsys.readouterr().out.strip()).stat().st_size > 10_000


@pytest.mark.parametrize(
    "line, sentence",
    [
        (["zebra"], "there is no 'zebra'"),
        (["rope", "pos.thet=3"], "did you mean pos.theta=3"),
        (["none"], "nothing to draw"),
        (["rope+zebra"], "there is no 'zebra'"),
    ],
)
def test_mistakes_are_sentences(capsys, line: list[str], sentence: str) -> None:
    assert main(line) == 2
    assert sentence in capsys.readouterr().err
    with pytest.raises(UsageError):
        gallery.draw(*line)


def test_the_table_in_the_readme_is_what_classes_claim() -> None:
    """Run python -m poslab.catalogue after a change of encodings."""
    text = README.read_text()
    assert text[text.index(START) + len(START) : text.index(END)].strip() == table()
    for word in WORDS:
        assert f"| `{word}` |" in text
