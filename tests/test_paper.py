"""table.tex and table.csv: what the report prints, in the forms that a paper takes."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from poslab.evaluators import Blocks
from poslab.evaluators.paper import escape, write_tables

from .test_page import text_section

WORDS = ("none", "rope_x & 50%", "a\\b{c}~^$#")


def test_the_table_of_a_paper(tmp_path: Path) -> None:
    write_tables(tmp_path, [text_section(words=WORDS), text_section(Blocks)])
    latex = (tmp_path / "table.tex").read_text()
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == latex.count(r"\toprule") == 2
    first = latex.split(r"\end{table}")[0]
    rows = re.search(r"\\midrule\n(.*)\n *\\bottomrule", first, re.DOTALL)
    assert rows is not None
    none, rope, other = (line.strip().removesuffix(r" \\").split(" & ") for line in rows[1].splitlines())
    assert none == ["none", *[r"2.05 $\pm$ 0.07"] * 3]
    # the made-up difference is separable at the first two sizes, and a loss that is larger is worse
    assert rope == [r"rope\_x \& 50\%", *[r"3.05 $\pm$ 0.07$^{-}$"] * 2, r"3.05 $\pm$ 0.07"]
    assert other[1:] == [r"4.05 $\pm$ 0.07", r"4.05 $\pm$ 0.07", "not defined"]
    assert r"encoding & 8 & \textbf{16} & 32 \\" in first and r"\begin{tabular}{lrrr}" in first
    assert "standard deviation over seeds" in first and r"Protocol: every\_byte." in first
    assert "worse than none on the same samples" in first


def test_the_table_as_csv(tmp_path: Path) -> None:
    write_tables(tmp_path, [text_section(words=WORDS), text_section(Blocks)])
    rows = list(csv.DictReader((tmp_path / "table.csv").open(newline="")))
    assert [row["evaluator"] for row in rows] == ["length"] * 3 + ["blocks"] * 3
    assert rows[1]["encoding"] == WORDS[1] and rows[1]["16"] == "3.05 ± 0.07" and rows[2]["32"] == "not defined"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv", "table.tex"]


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no pdflatex here")
def test_the_table_compiles(tmp_path: Path) -> None:
    write_tables(tmp_path, [text_section(words=WORDS)])
    head = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "paper.tex").write_text(head + "\\input{table}\n\\end{document}\n")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


def test_every_sign_of_latex_is_escaped() -> None:
    plain = re.sub(r"\\textbackslash\{\}|\\textascii\w+\{\}|\\text(less|greater)\{\}|\\[&%$#_{}]", "", escape(
        r"a\b&c%d$e#f_g{h}i~j^k<l>m"))  # fmt: skip
    assert plain == "abcdefghijklm"
