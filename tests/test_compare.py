"""Comparisons of run directories: complete, resumable, and calm about whatever fails."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from poslab.build import build_data, build_model
from poslab.comparison import compare, find_runs, report_name
from poslab.errors import UsageError
from poslab.models import GPT, ViT
from poslab.run import load_run
from poslab.variants import variants_of

POS = {
    "rope": {"_target_": "poslab.positions.rope.RoPE", "_partial_": True, "theta": 10000.0},
    "learned": {"_target_": "poslab.positions.learned.Learned", "_partial_": True},
    "none": {"_target_": "poslab.positions.none.NoPosition", "_partial_": True},
    "rope2d": {"_target_": "poslab.positions.rope2d.RoPE2d", "_partial_": True},
}
DATA = {
    "digits": {"_target_": "poslab.data.digits.Digits"},
    "copy": {"_target_": "poslab.data.copy.Copy", "length": 4, "symbols": 4, "samples": 320},
    "associative": {"_target_": "poslab.data.associative.Associative", "length": 2, "keys": 8, "samples": 320},
    "stdlib": {"_target_": "poslab.data.stdlib.Stdlib", "context": 16},
}
TRUNK = {"_partial_": True, "dim": 16, "heads": 2, "depth": 1}
GPT_NODE = {"_target_": "poslab.models.gpt.GPT", **TRUNK}
VIT_NODE = {"_target_": "poslab.models.vit.ViT", "patch_size": 2, **TRUNK}


ROOT = Path(__file__).parents[1]
HARDWARE = {"accelerator": "cpu", "devices": 1, "num_nodes": 1, "strategy": "auto"}


def make_run(root: Path, name: str, word: str, data: str = "copy", seed: int = 0, **more: Any) -> Path:
    """A run directory as training leaves it, with random weights."""
    model = "vit" if data == "digits" else "gpt"
    config = {
        "choices": {"model": model, "pos": word, "data": data},
        "model": VIT_NODE if model == "vit" else GPT_NODE,
        "pos": POS[word],
        "data": DATA[data],
        "seed": seed,
        "epochs": 2,
        "steps": None,
        "global_batch_size": 32,
    } | more
    built_data = build_data(config)
    torch.manual_seed(sum(name.encode()))
    built = build_model(config, built_data)
    state = {f"model.{key}": value + 0.3 * torch.randn_like(value) for key, value in built.state_dict().items()}
    directory = root / name
    (directory / "checkpoints").mkdir(parents=True)
    (directory / "config.yaml").write_text(yaml.safe_dump(config))
    (directory / "summary.json").write_text(json.dumps({"status": "complete"}))
    torch.save({"state_dict": state}, directory / "checkpoints" / "last.ckpt")
    return directory


def settings(runs: Any, root: Path, **more: Any) -> dict[str, Any]:
    """configs/eval.yaml, small. `more` overrides options of an evaluator."""
    evaluate = {
        "skip": False,
        "checkpoint": "last",
        "batch_size": 250,
        "bootstrap": 100,
        "confidence": 0.95,
        "resolution": {"sizes": None, "ratios": [1, 1.5]},
        "length": {"sizes": [4, 8, 16], "ratios": [1], "history": None, "targets": 4, "count": 40},
        "recall": {"sizes": [2, 4, 8], "ratios": [1], "count": 40},  # a copy of L symbols reads 2L tokens
    }
    for name, value in more.items():
        evaluate[name] = evaluate[name] | value if isinstance(value, dict) else value
    runs = [str(run) for run in runs] if isinstance(runs, list) else str(runs)
    return {"runs": runs, "report": None, "reports": str(root / "reports"), "hardware": HARDWARE, "evaluate": evaluate}


def read(report: Path) -> list[dict[str, str]]:
    with (report / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter]:
    """How often a model ran, by the length of its input."""
    counter: Counter = Counter()
    for kind in (GPT, ViT):
        original = kind.forward

        def counted(self, x, *rest, original=original, **more):
            counter[x.shape[-1]] += 1
            return original(self, x, *rest, **more)

        monkeypatch.setattr(kind, "forward", counted)
    yield counter


def test_only_what_is_missing_is_computed(tmp_path: Path, calls: Counter) -> None:
    run = make_run(tmp_path / "runs", "one", "rope")
    first = compare(settings(run, tmp_path), quiet=True)
    rows = read(first)
    assert set(calls) == {4, 8, 16} and first == tmp_path / "reports" / "one"
    assert [row["status"] for row in rows] == ["ok"] * 3 * 4
    assert {row["data"] for row in rows} == {"copy"} and "; data " in rows[0]["protocol"]
    shares = [row for row in rows if row["metric"] == "exact_match"]
    assert "0.0" in {row["value"] for row in shares}  # nothing right is not nothing possible
    assert all(float(row["ci_high"]) > float(row["ci_low"]) for row in shares)
    calls.clear()
    # moved and renamed, and still the same checkpoint
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    shutil.move(run, moved)
    again = settings(moved, tmp_path) | {"report": "one"}
    compare(again, quiet=True)
    assert not calls and read(first) == rows
    assert "renamed" in (first / "report.md").read_text()
    longer = settings(moved, tmp_path, recall={"sizes": [2, 4, 8, 16]}) | {"report": "one"}
    compare(longer, quiet=True)
    assert set(calls) == {32} and read(first)[:12] == rows and len(read(first)) == 16
    calls.clear()
    compare(settings(moved, tmp_path, recall={"count": 20}) | {"report": "one"}, quiet=True)
    assert set(calls) == {4, 8, 16} and len(read(first)) == 28  # another protocol is another row


def test_a_failing_size_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    runs = [make_run(tmp_path / "runs", pos, pos, "associative") for pos in ("learned", "none")]
    broken = make_run(tmp_path / "runs", "broken", "rope", "associative")
    torch.save({"state_dict": {"model.nothing": torch.zeros(1)}}, broken / "checkpoints" / "last.ckpt")
    unfinished = make_run(tmp_path / "runs", "unfinished", "rope", seed=2)
    (unfinished / "checkpoints" / "last.ckpt").unlink()
    forward, full = GPT.forward, True

    def hungry(self, tokens, **more):
        if full and tokens.shape[1] == 15:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(self, tokens, **more)

    monkeypatch.setattr(GPT, "forward", hungry)
    config = settings(tmp_path / "runs" / "*", tmp_path, recall={"sizes": [2, 4, 6, 9]})
    report = compare(config)
    told = capsys.readouterr().out
    assert "unfinished has no last checkpoint" in told and "left out" in told
    assert told.count(" sizes in ") == 3 and "\x1b" not in told and str(report / "results.csv") in told
    status = {(row["run"], row["size"]): row["status"] for row in read(report)}
    assert len(runs) == 2 and status["none", "2"] == status["none", "6"] == status["learned", "2"] == "ok"
    assert status["none", "9"] == "not defined: 9 pairs want 9 keys, there are 8: raise data.keys in training."
    assert status["none", "4"] == status["learned", "4"] == "out of memory"
    assert status["learned", "6"].startswith("not defined: ") and "7" in status["learned", "6"]
    assert status["broken", "2"].startswith("failed: ") and "\n" not in status["broken", "2"]
    # the next call tries again, and the new row takes the place of the old one
    full = False
    compare(config, quiet=True)
    assert capsys.readouterr().out == ""
    status = {(row["run"], row["size"]): row["status"] for row in read(report)}
    assert status["none", "4"] == "ok" and status["learned", "4"].startswith("not defined: ")
    assert len([row for row in read(report) if row["run"] == "learned"]) == 4 + 3  # four metrics, three sizes without
    text = (report / "report.md").read_text()
    assert "not defined (" in text and "Learned has positions up to 7" in text and "failed (" in text


def test_report_of_encodings_seeds_and_groups(tmp_path: Path, calls: Counter) -> None:
    for seed in range(3):
        for pos in ("rope", "learned"):
            make_run(tmp_path / "runs" / "demo", f"{pos}_{seed}", pos, seed=seed)
    make_run(tmp_path / "runs" / "demo", "longer", "rope", epochs=4)
    make_run(tmp_path / "runs" / "demo", "images", "rope2d", "digits")
    duplicate = tmp_path / "runs" / "demo" / "twin"
    shutil.copytree(tmp_path / "runs" / "demo" / "rope_0", duplicate)
    (tmp_path / "runs" / "demo" / "notes.txt").write_text("no run")
    config = settings(tmp_path / "runs" / "demo" / "*", tmp_path, resolution={"sizes": ["8x12", 9]})
    config |= {"baseline": "rope", "published": "rope_vit_s"}
    report = compare(config, quiet=True, command="python eval.py runs='runs/demo/*'")
    assert report.name == "demo"
    text = (report / "report.md").read_text()
    page = (report / "report.html").read_text()
    assert "[report.html](report.html)" in text and page.count("published: RoPE-Mixed") == 1 + 7
    table = list(csv.reader((report / "table.csv").read_text().splitlines()))
    assert table[0][5:] == ["8", "9", "8x12", "2", "4"] and len(table) == 1 + 1 + 2 + 1
    assert (report / "table.tex").read_text().count("\\begin{tabular}") == 3
    assert "python eval.py runs='runs/demo/*'" in text and "twin has the same checkpoint" in text
    assert text.count("\n### ") == 3 and "numbers of different sections are not comparable" in text
    section = text.split("### gpt on copy, trained at 4 for 20 steps of 32 (640 samples)")[1].split("###")[0]
    blocks = [[line for line in block.splitlines() if line.startswith("| ")] for block in section.split("\n\n")]
    _, _, accuracy, apart, loss, _ = (block for block in blocks if block)
    assert accuracy[0] == "| encoding | seeds | 2 | **4** | 8 |" and len(accuracy) == len(loss) == 4
    assert len(apart) == 3 and apart[2].startswith("| learned |") and "minus that of **rope** on the same" in section
    assert all(cell.rstrip().endswith(("better", "worse", "=")) for cell in apart[2].split("|")[2:4])
    lines = accuracy
    assert all(line.count("±") in (2, 3) and "| 3 |" in line for line in lines[2:])
    assert "whole image (crop ratio 1), bilinear, antialias" in text and "does not divide into patches" in text
    assert "brackets are the interval over its samples" in text.lower()
    figures = sorted(path.name for path in (report / "figures").iterdir())
    assert figures == ["recall-2.png", "recall.png", "resolution.png"]
    for figure in figures:
        assert f"(figures/{figure})" in text and (report / "figures" / figure).stat().st_size > 10_000


def test_real_text(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "bytes", "none", "stdlib")
    report = compare(settings(run, tmp_path, length={"sizes": [16, 64]}), quiet=True)
    rows = {(row["size"], row["metric"]): row for row in read(report)}
    loss, bits = rows["64", "loss"], rows["64", "bits_per_byte"]
    assert float(bits["value"]) == pytest.approx(float(loss["value"]) / 0.693147, rel=1e-5)
    assert float(loss["ci_low"]) < float(loss["value"]) < float(loss["ci_high"]) and loss["n"] == "40"
    assert float(loss["ratio"]) == 4 and "after up to 64 bytes of the same document" in loss["protocol"]


def test_two_processes_measure_as_one(tmp_path: Path) -> None:
    """The same command under hardware=ddp: the same rows, each sample once, and one report."""
    make_run(tmp_path / "runs", "text", "rope", "stdlib")
    make_run(tmp_path / "runs", "images", "rope2d", "digits")
    common = [sys.executable, str(ROOT / "eval.py"), f"runs={tmp_path}/runs/*", "evaluate=[length,blocks,resolution]"]
    common += ["evaluate.length.sizes=[32]", "evaluate.blocks.sizes=[24]", "evaluate.bootstrap=50"]
    common += ["evaluate.resolution.sizes=[8x12]", "evaluate.blocks.count=5", "hardware.accelerator=cpu"]
    found = []
    for name, more in {"one": [], "two": ["hardware=ddp", "hardware.devices=2"]}.items():
        command = [*common, f"reports={tmp_path}/{name}", *more]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("numbers: ") == 1
        found.append(read(tmp_path / name / "runs"))
    assert len(found[0]) == len(found[1]) > 20
    for one, two in zip(*found, strict=True):
        assert {name: one[name] for name in ("run", "size", "metric", "n", "status")}.items() <= two.items()
        for name in ("value", "ci_low", "ci_high"):
            assert not one[name] or float(one[name]) == pytest.approx(float(two[name]), abs=1e-6)


def test_what_a_person_can_mend(tmp_path: Path) -> None:
    run = make_run(tmp_path / "runs", "one", "rope")
    for runs, sentence in {
        "nowhere/*": "matches nothing",
        str(tmp_path / "*"): "none is a run directory",
        str(tmp_path / "runs"): r"holds some: runs='.*/\*'",
        str(tmp_path / "gone"): "does not exist",
    }.items():
        with pytest.raises(UsageError, match=sentence):
            compare(settings(runs, tmp_path), quiet=True)
    for options, sentence in (
        ({"skip": True}, "evaluate=auto"),
        ({"checkpoint": "first"}, "last, best"),
        ({"checkpoint": "best"}, "no best checkpoint"),
        ({"confidence": 95}, "0.95"),
        ({"recall": {"sizes": ["8x8"]}}, "is no size"),
    ):
        with pytest.raises(UsageError, match=sentence):
            compare(settings(run, tmp_path, **options), quiet=True)
    for hardware, sentence in (
        ({"accelerator": "tpu"}, "auto, cpu, gpu"),
        ({"accelerator": "gpu"}, "hardware=cpu"),
        ({"strategy": "fsdp"}, "hardware=ddp"),
    ):
        with pytest.raises(UsageError, match=sentence):
            compare(settings(run, tmp_path) | {"hardware": HARDWARE | hardware}, quiet=True)
    with pytest.raises(UsageError, match="baseline=lerned is not among the encodings of these runs: rope"):
        compare(settings(run, tmp_path) | {"baseline": "lerned"}, quiet=True)
    with pytest.raises(UsageError, match="published=rope is not one of rope_vit_s, "):
        compare(settings(run, tmp_path) | {"published": "rope"}, quiet=True)
    report = compare(settings(run, tmp_path) | {"published": "rope_vit_s"}, quiet=True, page=False)
    text = (report / "report.md").read_text()
    assert not (report / "report.html").exists() and "report.html" not in text
    assert "is about resolution, which was not asked here" in text
    runs, notes = find_runs([str(run), f"{tmp_path}/runs/*"])
    assert [each.name for each in runs] == ["one"] and not notes


@pytest.mark.parametrize(
    ("runs", "name"),
    [
        ("runs/sweeps/demo/*", "demo"),
        ("runs/*", "runs"),
        ("runs/*_vit_*", "vit"),
        ("runs/2026*_rope_s[0-2]", "2026-rope_s"),
        ("runs/one/", "one"),
        (["runs/a", "runs/b"], "a+b"),
        ("*", "all"),
    ],
)
def test_a_report_is_named_after_its_runs(runs: Any, name: str) -> None:
    assert report_name(runs) == name
    many = [f"runs/{number}" for number in range(200)]
    assert len(report_name(many)) < 100 and report_name(many) != report_name(many[:-1])


# ---- the same weights, read in other ways ----


def test_scaling_without_retraining(tmp_path: Path) -> None:
    """A trained RoPE with four rules: equal where it was trained, different beyond; a run without frequencies once."""
    node = POS["rope"] | {"scaling": None}
    make_run(tmp_path / "runs", "one", "rope", pos=node)
    make_run(tmp_path / "runs", "two", "none")
    asked = settings(tmp_path / "runs" / "*", tmp_path) | {"variants": {"scaling": ["none", "linear", "ntk", "yarn"]}}
    report = compare(asked, quiet=True)
    loss = {(row["run"], row["variant"], row["size"]): row["value"] for row in read(report) if row["metric"] == "loss"}
    names = ["", "scaling=linear", "scaling=ntk", "scaling=yarn"]
    trained = json.loads(json.dumps(read(report)[0]["train_size"]))
    assert {variant for run, variant, _ in loss if run == "one"} == set(names)
    assert {variant for run, variant, _ in loss if run == "two"} == {""}
    assert len({loss["one", name, trained] for name in names}) == 1
    assert len({loss["one", name, "8"] for name in names}) == 4
    text = (report / "report.md").read_text()
    assert all(f"rope {name}".strip() in text for name in names)


def test_a_variant_that_was_trained_is_the_plain_run(tmp_path: Path) -> None:
    yarn = {"_target_": "poslab.positions.scaling.YaRN", "factor": 2.0}
    parts = {"rope": POS["rope"] | {"scaling": yarn}, "none": POS["none"]}
    layers = {"_target_": "poslab.positions.layers.Layers", "order": ["rope", "none"], "parts": parts}
    run = load_run(make_run(tmp_path, "one", "rope", pos=layers))
    found = dict(variants_of(run, {"scaling": ["none", "yarn"], "resample": ["bicubic"]}))
    assert list(found) == ["scaling=none", "scaling=yarn"]  # the file's yarn has factor null, another rule than its own
    assert found["scaling=none"].config["pos"]["parts"]["rope"]["scaling"] is None
    assert run.config["pos"]["parts"]["rope"]["scaling"] == yarn, "the run itself stays as it was"
    assert list(dict(variants_of(run, {"scaling": None}))) == [""]


@pytest.mark.parametrize("word, sentence", [("yern", "there is no 'yern'"), ("longrope", "no default for long")])
def test_variants_that_do_not_exist(tmp_path: Path, word: str, sentence: str) -> None:
    run = make_run(tmp_path / "runs", "one", "rope", pos=POS["rope"] | {"scaling": None})
    with pytest.raises(UsageError, match=sentence):
        compare(settings(run, tmp_path) | {"variants": {"scaling": [word]}}, quiet=True)
