"""The README's line about bash completes words and keys, through Hydra's own script and nothing heavy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from poslab.catalogue import README
from poslab.cli.configs import CONFIGS, Configs

INSTALL = 'eval "$(python train.py -sc install=bash)"'
ASK = """
COMP_LINE=$1 COMP_POINT=${#1} words=($1)
COMP_CWORD=$((${#words[@]} - 1))
hydra_bash_completion
echo "${COMPREPLY[@]}"
"""


def complete(line: str, tmp_path: Path) -> list[str]:
    """What bash offers where the cursor stands at the end of `line`."""
    python = tmp_path / "python"  # the line says python, the tests may run under another name
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", "--norc", "-c", f"{INSTALL}\n{ASK}", "bash", line]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CONFIGS.parent, env=environment)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("python train.py model=", {f"model={word}" for word in Configs("train").options("model")}),
        ("python train.py model=gpt pos=", {f"pos={word}" for word in Configs("train").options("pos")}),
        ("python train.py model=gpt pos=al", {"pos=alibi", "pos=alibi2d"}),
        ("python train.py pos=rope pos.th", {"pos.theta="}),
        ("python train.py optim.l", {"optim.lr="}),
        ("python eval.py evaluate=r", {"evaluate=recall", "evaluate=resolution"}),
    ],
)
def test_bash_offers_the_words(line: str, offered: set[str], tmp_path: Path) -> None:
    assert set(complete(line, tmp_path)) == offered


def test_the_readme_says_how() -> None:
    assert INSTALL in README.read_text()


def test_an_answer_imports_nothing_heavy() -> None:
    """It is waited for with a finger on the key."""
    command = [sys.executable, "-X", "importtime", "train.py", "-sc", "query=bash"]
    line = "python train.py pos=rope pos."
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=CONFIGS.parent, env=os.environ | {"COMP_LINE": line}
    )
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "pos.theta=" in done.stdout and "hydra" in modules
    assert not modules & {"torch", "numpy", "lightning", "matplotlib", "wandb"}
