"""Two agents of torchrun on this machine, as if it were two: one run directory, and a killed worker costs no step."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import poslab
from poslab.errors import UsageError
from poslab.training.hardware import processes
from poslab.training.identity import LOCK
from poslab.training.launched import Launched, launched
from tests.configuration import GPT, configuration
from tests.processes import free_port, train
from tests.test_sweeps import TRAIN, wait_for

DOCS = Path(__file__).parents[1] / "docs/cluster.md"


def test_a_killed_worker_is_started_again_and_goes_on(tmp_path: Path) -> None:
    """The command of docs/cluster.md, with two nodes that are one."""
    documented = re.search(
        r"export (\w+)=1\ntorchrun (.*?) train\.py model=gpt pos=rope (.*?)\n```", DOCS.read_text(), re.DOTALL
    )
    assert documented
    agent, words = (part.replace("\\\n", "").split() for part in documented.groups()[1:])
    replaced = {"node0:29500": f"127.0.0.1:{free_port()}", "4": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", *(replaced.get(word, word) for word in agent)]
    long = [word for word in GPT if word != "hardware=cpu" and not word.startswith(("steps", "validate"))]
    long += ["steps=100", "validate_every=20"]
    line = [*command, str(TRAIN), *long, *words, "hardware.accelerator=cpu", "runs=two"]
    # two threads would add in another order than the one of the undisturbed run
    environment = os.environ | {documented[1]: "1", "OMP_NUM_THREADS": "1"}
    with (tmp_path / "log").open("w") as log:
        agents = [subprocess.Popen(line, cwd=tmp_path, stdout=log, stderr=log, env=environment) for _ in range(2)]
        try:
            first = wait_for(lambda: [*(tmp_path / "two").glob("*/checkpoints/last.ckpt")])[0]
            os.kill(int((first.parents[1] / LOCK).read_text()), signal.SIGKILL)
            assert [agent.wait(150) for agent in agents] == [0, 0], (tmp_path / "log").read_text()
        finally:
            for agent in agents:
                agent.kill()
    (directory,) = (tmp_path / "two").iterdir()  # one for both, before and after
    assert len(re.findall(r"going on after step \d+", (directory / "train.log").read_text())) == 1
    run = poslab.load_run(directory)
    assert run.summary["status"] == "complete" and run.summary["steps"] == 100
    undisturbed = configuration(*long, "hardware=ddp", "hardware.accelerator=cpu", f"runs={tmp_path}/one")
    assert train(undisturbed, 2, tmp_path / "log") == [0, 0]
    (single,) = (tmp_path / "one").iterdir()
    one, two = (
        torch.load(run / "checkpoints/last.ckpt", weights_only=True)["state_dict"] for run in (single, directory)
    )
    assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_the_number_of_processes_is_what_was_started() -> None:
    together = Launched("torchrun", rank=3, world=8, per_node=4, name="x")
    assert processes("auto", 1, together) == processes(4, 2, together) == {"devices": 4, "num_nodes": 2}
    assert processes([0, 1, 2, 3], 1, together)["devices"] == [0, 1, 2, 3]
    with pytest.raises(UsageError, match=r"set hardware\.devices=4"):
        processes(1, 1, together)
    with pytest.raises(UsageError, match="torchrun started 2"):
        processes(4, 3, together)
    with pytest.raises(UsageError, match=r"docs/cluster\.md"):
        processes(4, 2, None)
    assert DOCS.exists()


def test_who_started_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SLURM", "TORCHELASTIC", "RANK"))]:
        monkeypatch.delenv(name)
    assert launched() is None
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_PROCID": "0"}.items():
        monkeypatch.setenv(name, value)
    assert launched() is None  # the script of a batch job
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    assert launched() == Launched("srun", rank=0, world=4, per_node=2, name="0")
    for name, value in {"TORCHELASTIC_RUN_ID": "z", "RANK": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert launched() == Launched("torchrun", rank=1, world=2, per_node=2, name="z")  # on the nodes of a job
