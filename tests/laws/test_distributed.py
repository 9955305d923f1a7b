"""Two processes train as one does, with detection of unused parameters off."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import torch.multiprocessing

from . import build, two_processes
from .build import Setting


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One pair of processes for all encodings: starting them is the expensive part."""
    folder: Path = tmp_path_factory.mktemp("two_processes")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(two_processes.walk, (port, str(folder)), nprocs=two_processes.WORLD)
    return json.loads((folder / "verdicts.json").read_text())


@pytest.mark.parametrize("word, setting", build.model_cases())
def test_two_processes_are_one(word: str, setting: Setting, verdicts: dict[str, str]) -> None:
    assert verdicts[f"{word}-{setting.name}"] == "equal"


def test_an_unused_parameter_is_seen(verdicts: dict[str, str]) -> None:
    assert "parameters that were not used" in verdicts["broken"]
