"""report.html: one file that asks nobody, shows what was measured, and runs nothing that a name says."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatch
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from poslab.evaluators import EVALUATORS, Blocks, Evaluator, Length, Metric, Resolution
from poslab.evaluators.differences import Difference
from poslab.evaluators.groups import Group, make_groups
from poslab.evaluators.lines import Subject
from poslab.evaluators.page import Pen, write_page
from poslab.evaluators.page.canvas import outline
from poslab.evaluators.published import load_published
from poslab.evaluators.report import Provenance, Section
from poslab.results_file import COLUMNS

ROOT = Path(__file__).parents[1]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
EVIL = "<script>document.title='run'</script>"
SIZES = ("8", "16", "32")


class Cost(Length):
    """Stands for the evaluator of that name: what a model takes, at its trained size."""

    name = "cost"
    question = "What it takes"
    metrics = {"parameters": Metric("parameters", False), "speed": Metric("tokens per second", True)}
    compared = False


def subject(kind: type[Evaluator], pos: str, seed: int, numbers: dict[tuple[str, str], float | str]) -> Subject:
    """A run whose rows are `numbers`, (size, metric) -> value or status."""
    common = {"run": f"{pos} run {seed}", "model": "gpt", "pos": pos, "seed": str(seed), "data": "stdlib"}
    rows = []
    for (size, metric), value in numbers.items():
        row = dict.fromkeys(COLUMNS, "") | common | {"evaluator": kind.name, "size": size, "status": "ok"}
        if isinstance(value, str):
            rows.append(row | {"status": value})
        else:
            low, high = str(value - 0.1), str(value + 0.1)
            rows.append(row | {"metric": metric, "value": repr(value), "ci_low": low, "ci_high": high, "n": "40"})
    more = {"train_size": "16", "reference": "16", "budget": "trained at 16 for 5 steps", "identity": "every_byte"}
    return Subject(**common, **more, settings={"pos._target_": pos}, rows=rows)


def text_section(kind: type[Evaluator] = Length, words: Sequence[str] = ("none", "rope", "learned")) -> Section:
    """Losses of some encodings, two seeds each; the last one is not defined beyond its training."""
    subjects = []
    for number, pos in enumerate(words):
        for seed in (0, 1):
            numbers: dict[tuple[str, str], float | str] = {}
            for size in SIZES:
                numbers |= {(size, "loss"): 2.0 + number + seed / 10, (size, "bits_per_byte"): 3.0 + number}
                numbers |= {(size, f"loss@{part}"): 1.5 + number for part in ("0", "1") if kind is Blocks}
            if number == len(words) - 1:
                numbers = {key: value for key, value in numbers.items() if key[0] != "32"}
                numbers["32", ""] = "not defined: it has 16 positions."
            subjects.append(subject(kind, pos, seed, numbers))
    groups = [[compared(group, words[0]) for group in metrics] for metrics in make_groups(subjects, kind)]
    return Section(kind, groups, [[] for _ in groups])


def compared(group: Group, baseline: str) -> Group:
    """With made-up differences: the second line is separable from the baseline, the others are not."""
    others = [line.label for line in group.lines if line.label != baseline]
    each = {
        (label, size): Difference(0.5, 0.2, 0.8, 0.01, 0.02, separable=label == others[0])
        for label in others for size in group.sizes[:2]
    }  # fmt: skip
    return replace(group, baseline=baseline, differences=each)


def cost_section(words: Sequence[str] = ("none", "rope")) -> Section:
    numbers = [{("16", "parameters"): 1000.0 + number, ("16", "speed"): 50.0} for number in range(len(words))]
    groups = make_groups([subject(Cost, pos, 0, each) for pos, each in zip(words, numbers, strict=True)], Cost)
    return Section(Cost, groups, [[] for _ in groups])


def pen(sections: Sequence[Section], published: str | None = None) -> Pen:
    labels = sorted({line.label for section in sections for group in section.groups for line in group[0].lines})
    return Pen(sections, labels, load_published(published))


def make_page(path: Path, sections: Sequence[Section], note: str = "a note", command: str = "python eval.py") -> str:
    everyone = [each for section in sections for group in section.groups for line in group[0].lines
                for each in line.subjects]  # fmt: skip
    made = Provenance(command, "last", "95 % intervals", everyone, {each.run: "complete" for each in everyone}, [note])
    write_page(path, "Report demo", made, sections, pen(sections).style)
    return path.read_text()


class Reader(HTMLParser):
    """Tags, attributes and what script elements hold, as a browser would see them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.scripts: list[str] = []
        self.json: list[str] = []
        self.words: list[str] = []
        self.into: list[str] = self.words
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag == "script":
            self.into = self.json if ("type", "application/json") in attrs else self.scripts
            self.into.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self.into = self.words

    def handle_data(self, data: str) -> None:
        if self.into is self.words:
            self.words.append(data)
        else:
            self.into[-1] += data

    def values(self, name: str) -> list[str]:
        return [value or "" for _, attribute, value in self.attributes if attribute == name]


def test_one_file_with_everything(tmp_path: Path) -> None:
    sections = [text_section(), text_section(Blocks), cost_section()]
    page = Reader(make_page(tmp_path / "report.html", sections))
    assert page.tags["link"] == page.tags["iframe"] == page.tags["img"] == 0
    assert not page.values("src") and all(link.startswith(("#", "data:")) for link in page.values("href"))
    assert ("meta", "http-equiv", "Content-Security-Policy") in page.attributes
    assert any("default-src 'none'" in value for value in page.values("content"))
    assert sum("plotly.js v" in script[:300] for script in page.scripts) == 1
    assert 4_000_000 < (tmp_path / "report.html").stat().st_size < 6_000_000
    *figures, rows = map(json.loads, page.json)
    assert all(each["data"] and each["layout"]["height"] for each in figures)
    links = [link for link in page.values("href") if link.startswith("data:text/csv")]
    assert len(links) == len(figures) == page.words.count("python eval.py") - 1  # one more at the head
    # length: 2 metrics of curves, heat map, 2 sizes, 2 costs; blocks: with profiles; cost: curves and heat map, twice
    assert len(figures) == 2 * (2 + 2 + 2) + 2 * (2 + 2 + 2) + 3 + 2 * 2
    assert len(rows["rows"]) == sum(len(each.rows) for s in sections for g in s.groups for line in g[0].lines
                                    for each in line.subjects)  # fmt: skip
    text = " ".join(page.words)
    for expected in ("95 % intervals", "every_byte", "rope run 1", "a note", "not comparable", "2.05 ± 0.07"):
        assert expected in text, expected
    assert "learned: not defined at 32: it has 16 positions." in text and "+0.50 [0.20, 0.80] worse" in text


def test_data_links_hold_the_numbers(tmp_path: Path) -> None:
    [panel, _] = pen([text_section()]).panels(text_section(), 0)
    content = unquote(panel.curves.charts[""].csv.partition(",")[2])
    rows = list(csv.DictReader(io.StringIO(content)))
    found = {(row["encoding"], row["size"]): row for row in rows}
    assert float(found["rope", "32"]["loss, nats per token"]) == pytest.approx(3.05) and len(rows) == 9
    assert float(found["rope", "32"]["high"]) - 3.05 == pytest.approx(math.sqrt(0.005))
    assert found["learned", "32"] | {"low": "", "high": ""} == found["learned", "32"]
    assert found["learned", "32"]["status"].startswith("not defined")
    assert panel.differences is not None
    [first, _] = csv.DictReader(io.StringIO(unquote(panel.differences.charts["16"].csv.partition(",")[2])))
    assert (first["encoding"], first["difference"], first["separable"]) == ("rope", "0.5", "True")


def test_names_are_only_names(tmp_path: Path) -> None:
    words = ["none", f"rope{EVIL}", 'a"><img src=x onerror=alert(1)>', "</script><b>&amp;"]
    plain = Reader(make_page(tmp_path / "plain.html", [text_section(words=["none", "a", "b", "c"])]))
    evil = Reader(make_page(tmp_path / "evil.html", [text_section(words=words)], note=EVIL, command=f"x {EVIL}"))
    assert evil.tags == plain.tags and evil.scripts == plain.scripts
    assert len(evil.values("onerror")) == 0 and EVIL in evil.words
    # plotly reads a little markup in its texts
    names = {trace.get("name") for each in evil.json[:-1] for trace in json.loads(each)["data"]}
    assert {escape(word) for word in words} <= names and not names & set(words[1:])
    assert words[1] in {row[2] for row in json.loads(evil.json[-1])["rows"]}


def test_an_encoding_keeps_its_colour() -> None:
    """In every figure of every question, also where another one is missing."""
    sections = [text_section(), text_section(Blocks, ("none", "learned")), cost_section(("learned", "none"))]
    drawn: dict[str, set[str]] = {}
    artist = pen(sections)
    for section in sections:
        for panel in artist.panels(section, 0):
            figures = [panel.curves, *([panel.differences] if panel.differences else []), *panel.more]
            for trace in [t for each in figures for chart in each.charts.values() for t in chart.figure.data]:
                if trace.mode != "none":
                    name = trace.name or trace.hovertext.split(" at ")[0]
                    drawn.setdefault(name, set()).add(trace.line.color or trace.marker.color)
    assert set(drawn) == {"none", "rope", "learned"} and {len(each) for each in drawn.values()} == {1}
    assert len(set.union(*drawn.values())) == 3


def test_what_is_not_defined_says_so() -> None:
    [panel, _] = pen([text_section()]).panels(text_section(), 0)
    numbers, missing = panel.heat_map.charts[""].figure.data
    assert list(numbers.text[-1]) == ["4.05", "4.05", ""] and math.isnan(numbers.z[-1][-1])
    assert list(missing.text[-1]) == ["", "", "not<br>defined"] and list(missing.z[-1]) == [None, None, 0]
    assert missing.hovertext[-1][-1] == "learned at 32: not defined: it has 16 positions."
    x, low = np.arange(5.0), np.array([0.0, 0.0, math.nan, 0.0, math.nan])
    assert outline(x, low, low + 1) == ([0, 1, 1, 0, None, 3, 3, None], [0, 0, 1, 1, None, 0, 1, None])


def test_the_reference_and_the_differences_are_marked() -> None:
    [panel, _] = pen([text_section()]).panels(text_section(), 0)
    figure = panel.curves.charts[""].figure
    assert figure.layout.shapes[0].x0 == 4.0 and "trained size" in [each.text for each in figure.layout.annotations]
    assert panel.differences is not None and panel.differences.chosen == "16"
    rope, learned = panel.differences.charts["16"].figure.data
    assert not rope.marker.symbol.endswith("-open") and learned.marker.symbol.endswith("-open")
    assert panel.differences.charts["16"].figure.layout.xaxis.title.text == "← better"
    assert rope.error_x.array == pytest.approx([0.3]) and rope.x == (0.5,)


def test_chance_is_a_dashed_line() -> None:
    class Guessed(Length):
        chances = {"loss": "guess"}

    numbers: dict[tuple[str, str], float | str] = {(size, "loss"): 1.0 for size in SIZES}
    numbers |= {(size, "guess"): 4.0 for size in SIZES}
    section = Section(Guessed, make_groups([subject(Guessed, "none", 0, numbers)], Guessed), [[]])
    [panel] = pen([section]).panels(section, 0)
    *_, line = panel.curves.charts[""].figure.data
    assert (line.name, line.line.dash, list(line.y)) == ("chance", "dash", [4.0] * 3)


def test_quality_against_cost_where_cost_was_measured() -> None:
    quality = text_section()
    assert all(not panel.more for panel in pen([quality]).panels(quality, 0))
    both = [quality, cost_section()]
    panel = pen(both).panels(quality, 0)[0]
    [figure] = panel.more
    assert list(figure.charts) == ["parameters", "tokens per second"]
    points = figure.charts["parameters"].numbers
    assert [(each["encoding"], each["parameters"]) for each in points] == [("none", 1000.0), ("rope", 1001.0)]
    assert points[0]["loss, nats per token"] == pytest.approx(2.05)
    assert "low and to the left is good" in figure.charts["parameters"].says
    assert "low and to the right is good" in figure.charts["tokens per second"].says


# ---- lines of papers ----


def words() -> list[str]:
    with pytest.raises(ValueError, match="published=x is not one of") as error:
        load_published("x")
    return re.sub(".*one of |[.]$", "", str(error.value)).split(", ")


@pytest.mark.parametrize("word", words())
def test_published_lines_are_complete(word: str) -> None:
    published = load_published(word)
    assert published is not None and published.source and published.setup and published.title
    assert published.metric in EVALUATORS[published.evaluator].metrics and published.trained in published.sizes
    assert all(len(values) == len(published.sizes) for values in published.lines.values())
    assert all(0 < value < 100 for values in published.lines.values() for value in values if value is not None)
    assert set(published.like) <= set(published.lines)
    assert all((ROOT / "configs" / "pos" / f"{mine}.yaml").exists() for mine in published.like.values())
    comment = next(line for line in (ROOT / "configs" / "eval.yaml").read_text().splitlines() if "published:" in line)
    assert word in re.findall(r"\w+", comment.partition(": ")[2])


def test_published_lines_stand_beside_and_are_not_ranked() -> None:
    numbers = [{("8", "accuracy"): 0.5, ("16", "accuracy"): 0.6, ("8x32", "accuracy"): 0.7} for _ in range(2)]
    groups = make_groups([subject(Resolution, pos, 0, each) for pos, each in zip(("none", "rope2d"), numbers)],
                         Resolution)  # fmt: skip
    section = Section(Resolution, groups, [[]])
    [panel] = pen([section], "rope_vit_s").panels(section, 0)
    chart = panel.more[0].charts[""]
    theirs = {trace.name: trace for trace in chart.figure.data if (trace.name or "").startswith("published: ")}
    ours = next(trace for trace in chart.figure.data if trace.name == "rope2d" and trace.mode != "none")
    axial = theirs["published: RoPE-Axial"]
    assert (axial.yaxis, axial.line.color, axial.line.dash) == ("y2", ours.line.color, "dot") and ours.yaxis == "y"
    assert axial.x[0] == pytest.approx(144 / 224) and list(ours.x) == [0.5, 1.0]
    assert "Source: Heo, Park, Han & Yun 2024" in chart.says and "never ranked" in chart.says
    assert not any("published" in str(trace.name) for trace in panel.curves.charts[""].figure.data)
    assert {row["whose"] for row in chart.numbers} == {"this report", "published"}
    length = text_section()
    assert all(not panel.more for panel in pen([length], "rope_vit_s").panels(length, 0))


# ---- as installed, and in a browser ----


def test_an_installed_package_has_the_files_beside_the_code() -> None:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    given = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    source = ROOT / "src"
    beside = [path for path in source.rglob("*") if path.suffix in (".html", ".css", ".js", ".yaml", ".json")]
    assert len(beside) >= 5
    for path in beside:
        package = ".".join(path.parent.relative_to(source).parts)
        assert any(fnmatch(path.name, pattern) for pattern in given.get(package, [])), path


USE = """<script>addEventListener("load", () => setTimeout(() => {
  const field = document.getElementById("filter"), told = {};
  const column = word => [...document.querySelectorAll("#all th")].find(cell => cell.textContent === word);
  const values = () => [...document.querySelectorAll("#all tbody tr")].map(row => row.children[VALUE].textContent);
  field.value = "rope bits";
  field.dispatchEvent(new Event("input"));
  told.filtered = values().length;
  field.value = "";
  field.dispatchEvent(new Event("input"));
  column("value").click();
  told.up = values();
  column("value").click();
  told.down = values();
  const metric = document.querySelector("section > label > select");
  metric.selectedIndex = 1;
  metric.dispatchEvent(new Event("change"));
  told.hidden = [...metric.closest("section").children].filter(e => e.className === "choice").map(e => e.hidden);
  setTimeout(() => {
    const visible = [...document.querySelectorAll(".plot")].filter(node => node.offsetParent);
    told.drawn = visible.map(node => node.querySelectorAll(".main-svg").length > 0);
    told.title = document.title;
    told.names = [...document.querySelectorAll(".legendtext")].map(node => node.textContent);
    told.room = visible.filter(node => node.querySelector(".legend")).map(node => {
      const box = word => node.querySelector(word).getBoundingClientRect();
      return [node._fullLayout._size.h, box(".legend").top - box(".xtitle").bottom];
    });
    told.wide = document.documentElement.scrollWidth > innerWidth;
    const code = document.createElement("pre");
    code.id = "told";
    code.textContent = JSON.stringify(told);
    document.body.append(code);
  }, 12000);
}, 3000));</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here: apt-get install chromium")
def test_in_a_browser(tmp_path: Path) -> None:
    """Everything is drawn, sorts, filters and switches; the console stays empty; a script for a name does not run."""
    section = text_section(words=["none", f"rope{EVIL}", *(f"encoding_{number}" for number in range(22))])
    page = make_page(tmp_path / "report.html", [section, text_section(Blocks)])
    value = str([name for name in COLUMNS if name not in ("checkpoint_sha", "protocol")].index("value"))
    (tmp_path / "used.html").write_text(page.replace("</body>", USE.replace("VALUE", value) + "</body>"))
    flags = "--headless=new --no-sandbox --disable-gpu --enable-logging=stderr --virtual-time-budget=40000 --dump-dom"
    size, profile = "--window-size=500,12000", f"--user-data-dir={tmp_path / 'profile'}"
    done = subprocess.run(
        [str(CHROMIUM), *flags.split(), size, profile, f"file://{tmp_path / 'used.html'}"],
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    told = json.loads(next(word for word in Reader(done.stdout).words if word.startswith('{"filtered"')))
    assert told["title"] == "Report demo"
    assert all(height > 230 and gap > -2 for height, gap in told["room"]) and len(told["room"]) == 3, told["room"]
    assert told["filtered"] == 12 and told["hidden"] == [True, False] and not told["wide"]
    assert told["drawn"] and all(told["drawn"])
    assert f"rope{EVIL}" in told["names"]
    numbers: list[Any] = [float(each) for each in told["up"] if each]
    assert numbers == sorted(numbers) and numbers[0] == 1.5
    numbers = [float(each) for each in told["down"] if each]
    assert numbers == sorted(numbers, reverse=True) and numbers[0] == 26.0
