"""Weights & Biases without an account: one offline run a job, with the configuration to filter by."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from poslab.cli.check import check
from poslab.cli.configs import Configs
from poslab.cli.pairs import check_pairs
from poslab.comparison import compare
from poslab.errors import Interrupted
from poslab.training.fit import fit
from poslab.training.interrupt import Interrupt
from tests.configuration import GPT, configuration
from tests.test_training import die_at, interrupt_at

ROOT = Path(__file__).parents[1]
wandb = pytest.importorskip("wandb", reason="the wandb extra is not installed")


@pytest.fixture(autouse=True)
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # no netrc
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def records(directory: Path) -> list[dict[str, Any]]:
    """What wandb's own reader finds in the offline records below a directory, the earlier first."""
    found = []
    for path in sorted(directory.glob("wandb/offline-run-*/*.wandb")):
        reader = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(path)]
        lines = subprocess.run(reader, check=True, capture_output=True, text=True).stdout.splitlines()
        found.append([json.loads(line) for line in lines])
    return [of_kinds(each) for each in found]


def of_kinds(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """{"run": [...], "history": [...], "exit": [...]}"""
    kinds = {line["type"] for line in lines}
    return {kind: [line[kind] for line in lines if line["type"] == kind and kind in line] for kind in kinds}


def test_a_job_is_one_record_of_its_own_that_can_be_filtered_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*GPT, "steps=6", "validate_every=2", "logger=wandb", "logger.every=2", "evaluate=recall"]
    words += ["evaluate.bootstrap=0", f"runs={tmp_path}/runs/sweeps/study", f"reports={tmp_path}/reports"]
    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        interrupt_at(patch, step=3)
        fit(configuration(*words, "pos=rope", "logger.wandb.tags=[a,b]"))
    (stopped,) = (tmp_path / "runs/sweeps/study").iterdir()
    assert "wandb sync" in (stopped / "train.log").read_text()
    fit(configuration(f"resume={stopped}"))
    first, second = records(stopped)
    assert first["exit"][0]["exit_code"] == 143 and not second["exit"][0].get("exit_code")
    (run,), (again,) = first["run"], second["run"]
    assert run["run_id"] == again["run_id"] and run["run_group"] == "study" and run["tags"] == ["a", "b"]
    assert run["display_name"] == stopped.name
    settings = run["config"]["update"]
    assert (settings["pos"], settings["data"], settings["pos.theta"]) == ("rope", "copy", 10000)
    best = {each["name"]: each["summary"] for each in first["metric"] if "summary" in each}
    assert best["val/loss"] == {"min": True} and best["val/accuracy"] == {"max": True}
    assert all(each["step_metric"] == "trainer/global_step" for each in first["metric"] if "summary" in each)

    rows = [each["item"] for record in (first, second) for each in record["history"]]
    steps = [row["trainer/global_step"] for row in rows if "train/lr" in row]
    assert steps == [2, 4, 6] and [row["trainer/global_step"] for row in rows if "val/loss" in row] == [2, 4, 6]
    assert {"train/loss", "train/gradient_norm"} <= {key for row in rows for key in row}
    assert any("evaluation/results" in key for key in rows[-1]) and any("recall" in key for key in rows[-1])
    artifacts = {each["name"]: each for each in second["artifact"]}
    report = artifacts[f"report-{stopped.name}"]
    files = {each["path"] for each in report["manifest"]["contents"]}
    assert {"results.csv", "report.md", "table.tex"} <= files and not any("samples" in path for path in files)

    other = fit(configuration(*words, "pos=none"))
    (record,) = records(other)
    assert record["run"][0]["run_id"] != run["run_id"] and record["run"][0]["config"]["update"]["pos"] == "none"


def test_a_failed_job_is_a_failed_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interrupt, "on_train_batch_end", die_at(2))
    with pytest.raises(RuntimeError, match="power cut"):
        fit(configuration(*GPT, "logger=wandb", f"runs={tmp_path}/runs"))
    (record,) = records(next((tmp_path / "runs").iterdir()))
    assert record["exit"][0]["exit_code"] == 1
    assert wandb.run is None  # the next job of this process would write into it


def test_a_comparison_is_sent_as_a_record_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*GPT, "steps=2", f"runs={tmp_path}/runs", f"reports={tmp_path}/reports", "evaluate.skip=true"]
    for pos in ("rope", "none"):
        fit(configuration(*words, f"pos={pos}"))
    config = configuration(
        f"runs={tmp_path}/runs/*", f"reports={tmp_path}/reports", "report=both", "logger=wandb",
        "evaluate.recall.sizes=[4,8]", "evaluate.bootstrap=0", name="eval",
    )  # fmt: skip
    directory = compare(config)
    assert "wandb sync" in capsys.readouterr().out
    (record,) = records(directory)
    assert record["run"][0]["job_type"] == "report" and record["run"][0]["display_name"] == "both"
    table = next(directory.glob("wandb/offline-run-*/files/media/table/evaluation/results*.json"))
    assert len(json.loads(table.read_text())["data"]) == 2 * 2 * 4
    curve = next(directory.glob("wandb/offline-run-*/files/media/table/evaluation/recall/loss*.json"))
    lines = {tuple(row[:2]): row[2] for row in json.loads(curve.read_text())["data"]}
    assert {key for _, key in lines} == {"rope", "none"} and {size for size, _ in lines} == {4, 8}
    artifact = next(each for each in record["artifact"] if each["type"] == "report")
    assert "report.html" in {each["path"] for each in artifact["manifest"]["contents"]}


@pytest.mark.parametrize("path", sorted((ROOT / "sweeps").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_sweep_file_gives_command_lines_that_train_accepts(path: Path) -> None:
    """Through the code with which wandb's agent makes them."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    file = yaml.safe_load(path.read_text())
    assert file["method"] == "grid" and file["metric"] == {"name": "val/loss", "goal": "minimize"}
    keys, values = zip(*((key, each["values"]) for key, each in file["parameters"].items()))
    configs, lines = Configs("train"), set()
    for chosen in product(*values):
        arguments = create_sweep_command_args({"args": {key: {"value": value} for key, value in zip(keys, chosen)}})
        line = create_sweep_command([*file["command"]])
        line[-1:] = arguments[line[-1][2:-1]]
        assert line[:3] == ["${env}", "${interpreter}", "${program}"] and (ROOT / file["program"]).exists()
        check_pairs(configs, check(configs, line[3:]))
        lines.add(" ".join(line[3:]))
    assert len(lines) == math.prod(map(len, values)) == 54
    assert configuration(*line[3:])["optim"]["lr"] == chosen[keys.index("optim.lr")]
