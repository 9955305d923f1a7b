"""Weights & Biases without an account: one offline run a job, with the configuration to filter by."""

from __future__ import annotations

from pathlib import Path

import pytest

from poslab.training.fit import fit
from tests.configuration import GPT, configuration

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
