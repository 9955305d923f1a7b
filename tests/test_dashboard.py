"""The workspace is made of what runs log, through wandb's own classes; without a key it is a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poslab import dashboard

pytest.importorskip("wandb_workspaces", reason="the wandb extra is not installed")


def test_without_a_key_the_specification_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    assert dashboard.main(["me/poslab", "--sweep", "rates"]) == 0
    assert "wandb has no key here" in capsys.readouterr().out
    specification = json.loads((tmp_path / dashboard.SPECIFICATION).read_text())
    assert (specification["entity"], specification["project"]) == ("me", "poslab")
    section = specification["spec"]["section"]
    panels = [panel for each in section["panelBankConfig"]["sections"] for panel in each["panels"]]
    logged = {metric for panel in panels for metric in panel["config"].get("metrics") or ()}
    assert {"val/loss", "val/accuracy", "train/loss", "train/samples_per_second", "train/mfu"} <= logged
    curves = [panel["config"] for panel in panels if panel["viewType"] in ("Run History Line Plot", "Bar Chart")]
    assert len(curves) == 8 and all("pos" in each["groupBy"] for each in curves)
    assert '"rates"' in json.dumps(section["runSets"])


def test_with_a_key_the_workspace_is_made(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import wandb_workspaces.workspaces as ws

    saved: list[Any] = []
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setattr(ws.Workspace, "save", lambda self: saved.append(self))
    monkeypatch.setattr(ws.Workspace, "url", property(lambda self: "https://wandb.ai/me/poslab?nw=1"))
    assert dashboard.main(["me/poslab"]) == 0
    assert len(saved) == 1 and saved[0].name == "Encodings" and "wandb.ai/me/poslab" in capsys.readouterr().out


@pytest.mark.parametrize("project", ["poslab", "me/", "/poslab", "a/b/c"])
def test_another_word_is_a_sentence(project: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert dashboard.main([project]) == 2
    assert "is not ENTITY/PROJECT" in capsys.readouterr().err
