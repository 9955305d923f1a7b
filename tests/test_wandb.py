"""Weights & Biases without an account: one offline run a job, with the configuration to filter by."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import pytest
import yaml

from poslab.cli.check import check
from poslab.cli.configs import Configs
from poslab.cli.pairs import check_pairs
from poslab.training.fit import fit
from tests.configuration import GPT, configuration

ROOT = Path(__file__).parents[1]
wandb = pytest.importorskip("wandb", reason="the wandb extra is not installed")


def test_without_a_key_each_job_records_its_own_run_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # no netrc
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    finished = []
    original = wandb.finish

    def finish(exit_code: int) -> None:
        finished.append((wandb.run.id, exit_code))
        original(exit_code)

    monkeypatch.setattr(wandb, "finish", finish)
    for pos in ("rope", "none"):
        directory = fit(configuration(*GPT, f"pos={pos}", "steps=2", "logger=wandb", f"runs={tmp_path}/runs"))
        (offline,) = (directory / "wandb").glob("offline-run-*")
        recorded = next(offline.glob("run-*.wandb")).read_bytes()
        assert f'"{pos}"'.encode() in recorded and b"val/loss" in recorded
        assert "wandb sync" in (directory / "train.log").read_text()
    assert len({run for run, _ in finished}) == 2 and {code for _, code in finished} == {0}


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
