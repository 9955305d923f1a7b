"""poslab.results: what is in results.csv, with types; whatever is none is a sentence."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import poslab
from poslab.errors import UsageError
from poslab.results_file import COLUMNS, Results
from poslab.typed_results import Row, Rows

COMMON = dict.fromkeys(COLUMNS, "") | {"model": "gpt", "data": "copy", "train_size": "64", "evaluator": "length"}
TYPES = {"seed": int, "n": int, "ratio": float, "value": float, "ci_low": float, "ci_high": float}


def line(**columns: str) -> dict[str, str]:
    return COMMON | {"status": "ok"} | columns


@pytest.fixture
def report(tmp_path: Path) -> Path:
    Results(tmp_path / "results.csv").add(
        [
            line(pos="rope", seed="0", size="64", ratio="1", metric="loss", value="1.5", ci_low="1.25", ci_high="1.75",
                 n="100"),
            line(pos="rope", seed="1", size="64", ratio="1", metric="loss", value="1.25", ci_low="nan", ci_high="nan",
                 n="100"),
            line(pos="rope", seed="0", size="28x56", ratio="1.41421", metric="accuracy", value="0.5", n="7"),
            line(pos="learned", seed="0", size="128", ratio="2", status="not defined: it ends at 64, say"),
        ]
    )  # fmt: skip
    return tmp_path


def test_the_fields_are_the_columns_and_have_types(report: Path) -> None:
    assert tuple(field.name for field in fields(Row)) == COLUMNS
    first, second, third, last = poslab.results(report)
    assert {name: type(getattr(first, name)) for name in COLUMNS} == dict.fromkeys(COLUMNS, str) | TYPES
    assert (first.seed, first.ratio, first.value, first.ci_low, first.ci_high, first.n) == (0, 1, 1.5, 1.25, 1.75, 100)
    assert (second.value, second.ci_low, second.ci_high) == (1.25, None, None)  # nan is how a file says so
    assert (third.size, third.ratio) == ("28x56", 1.41421)
    assert (last.value, last.n, last.ratio, last.status) == (None, None, 2, "not defined: it ends at 64, say")


def test_the_folder_and_the_file_are_the_same(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert poslab.results(report) == poslab.results(str(report / "results.csv"))
    monkeypatch.setenv("HOME", str(report.parent))
    assert len(poslab.results(f"~/{report.name}")) == 4


def test_where_filters_by_value_list_and_number(report: Path) -> None:
    rows = poslab.results(report)
    assert [row.value for row in rows.where(pos="rope", metric="loss", size=64)] == [1.5, 1.25]
    assert [row.pos for row in rows.where(seed=0).where(status="ok")] == ["rope", "rope"]
    assert len(rows.where(size=["64", 128])) == 3 and len(rows.where(value=None)) == 1
    assert rows.where(pos="zebra") == [] and isinstance(rows.where(ratio=2), Rows)
    with pytest.raises(UsageError, match="no column 'postion'; there are run, "):
        rows.where(postion="rope")


def test_pandas_takes_them(report: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(poslab.results(report))
    assert tuple(frame.columns) == COLUMNS
    assert frame[frame.metric == "loss"].groupby("pos").value.mean()["rope"] == 1.375


def test_whatever_is_none_is_a_sentence_with_the_fix(report: Path, tmp_path: Path) -> None:
    wrong = {
        "nothing": "does not exist: give the folder of a report",
        "above": "holds reports and is none: give one of them, .*one for instance",
        "run": r"is a run, and no report yet: python eval.py runs=.*run makes one",
        "empty": r"has no results.csv: python eval.py runs=",
        "other.csv": "is not a results.csv as poslab writes it: give the folder",
        "bytes.csv": "is not a results.csv as poslab writes it",
        "blank.csv": "is not a results.csv as poslab writes it",
        "words.csv": "is not a results.csv as poslab writes it",
    }
    for folder in ("above/one", "run", "empty"):
        (tmp_path / folder).mkdir(parents=True)
    text = (report / "results.csv").read_text()
    (tmp_path / "above/one/results.csv").write_text(text)
    (tmp_path / "run/config.yaml").write_text("seed: 0\n")
    (tmp_path / "other.csv").write_text("epoch,loss\n1,2\n")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "blank.csv").write_text("")
    (tmp_path / "words.csv").write_text(text.replace("1.5", "high"))
    for name, sentence in wrong.items():
        with pytest.raises(UsageError, match=sentence) as raised:
            poslab.results(tmp_path / name)
        assert "\n" not in str(raised.value)


def test_reading_a_table_imports_nothing_heavy(report: Path) -> None:
    code = (
        f"import sys, poslab; poslab.results({str(report)!r})\n"
        "print([name for name in ('torch', 'numpy', 'pandas', 'lightning', 'hydra') if name in sys.modules])\n"
        "poslab.load_run; print('torch' in sys.modules)"  # so the line above can fail
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["[]", "True", ""]
