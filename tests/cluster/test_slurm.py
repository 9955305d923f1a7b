"""On a real SLURM of one node: jobs that are preempted or out of time end with the weights of undisturbed ones."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import poslab
from poslab.run import Run
from poslab.training.fit import fit
from tests.configuration import GPT, configuration
from tests.test_sweeps import TRAIN, row, runs, sweeping, wait_for

HERE = Path(__file__).parent
LONG = ["steps=600", "validate_every=25"]
WORDS = [word for word in GPT if not word.startswith(("steps", "validate", "evaluate"))] + LONG


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("a SLURM of one node is started as root")
    if not all(shutil.which(name) for name in ("slurmctld", "slurmd", "munged")):
        pytest.skip("SLURM is not installed: tests/cluster/install.sh")
    pytest.importorskip("submitit")
    folder = tmp_path_factory.mktemp("slurm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        try:
            started = subprocess.run([HERE / "start.sh", folder], capture_output=True, text=True)
            if started.returncode:
                pytest.skip(f"SLURM does not start here: {started.stderr.strip().splitlines()[-1:]}")
            yield
        finally:
            subprocess.run([HERE / "stop.sh", folder], check=True)


def ask(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def jobs() -> dict[str, str]:
    """Label -> number."""
    lines = ask("squeue", "-h", "-o", "%A %j").splitlines()
    return {line.split()[-1]: line.split()[0] for line in lines}


def start_again(job: str) -> None:
    """A job that is back in the queue would wait for two minutes."""
    wait_for(lambda: "PENDING" in ask("squeue", "-h", "-j", job, "-o", "%T"))
    ask("scontrol", "update", f"JobId={job}", "StartTime=now")


def weights(run: Run) -> dict[str, torch.Tensor]:
    return torch.load(run.checkpoint(), weights_only=True)["state_dict"]


def last_step(run: Run) -> int:
    return torch.load(run.checkpoint(), weights_only=True)["global_step"]


def saved(tmp_path: Path, name: str, key: str) -> bool:
    run = runs(tmp_path, name).get(key)
    return run is not None and (run.directory / "checkpoints/last.ckpt").exists()


@pytest.mark.full
def test_a_sweep_is_preempted_and_runs_out_of_time_and_finishes(tmp_path: Path) -> None:
    launcher = ["hydra/launcher=slurm", "hydra.launcher.mem=500M", "+hydra.launcher.sbatch.comment=ours"]
    line = [*WORDS, *launcher, "sweep=study", "seed=0,1"]
    with sweeping(tmp_path, *line) as process:
        wait_for(lambda: saved(tmp_path, "study", "2 0") and saved(tmp_path, "study", "2 1"))
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    assert not jobs() and {run.summary["status"] for run in runs(tmp_path, "study").values()} == {"interrupted"}
    assert " interrupted " in row(tmp_path, "seed=0") and " interrupted " in row(tmp_path, "seed=1")

    with sweeping(tmp_path, *line) as process:
        logs = [run.directory / "train.log" for run in runs(tmp_path, "study").values()]
        wait_for(lambda: all("going on after step" in log.read_text() for log in logs))
        time.sleep(2)  # a signal before the first step ends a process at once
        numbers = jobs()
        assert ask("squeue", "-h", "-o", "%k").split() == ["ours", "ours"]
        ask("scontrol", "requeue", numbers["seed=0"])
        ask("scancel", "--signal=USR2", numbers["seed=1"])  # as a minute and a half before the end of its time
        for label in numbers:
            start_again(numbers[label])
        stopped = {key: last_step(run) for key, run in runs(tmp_path, "study").items()}
        assert process.wait(300) == 0
    after = runs(tmp_path, "study")
    assert after.keys() == {"2 0", "2 1"}
    assert len(list((tmp_path / "runs/sweeps/study").glob("*/config.yaml"))) == 2
    for key, run in after.items():
        log = (run.directory / "train.log").read_text()
        assert (
            0 < stopped[key] < 600
            and log.count("going on after step") == 2
            and f"going on after step {stopped[key]}" in log
        )
        assert run.summary["status"] == "complete" and run.summary["steps"] == 600
        undisturbed = fit(configuration(*WORDS, "evaluate.skip=true", f"runs={tmp_path}/alone", f"seed={key[-1]}"))
        expected = weights(poslab.load_run(undisturbed))
        assert all(torch.equal(value, expected[name]) for name, value in weights(run).items())
    assert "back into the queue" in (after["2 1"].directory / "train.log").read_text()
    assert " complete " in row(tmp_path, "seed=0") and " complete " in row(tmp_path, "seed=1")


def test_the_batch_file_of_the_docs(tmp_path: Path) -> None:
    """Two tasks, one run directory, the loss of one process."""
    text = (HERE.parents[1] / "docs/cluster.md").read_text()
    script = next(block for block in text.split("```sh\n") if block.startswith("#!/bin/bash")).split("```")[0]
    command = "python train.py model=gpt pos=rope hardware=ddp resume=auto"
    assert command in script and "--gpus-per-node=2\n" in script
    words = [word for word in GPT if word != "hardware=cpu"]
    words += ["hardware=ddp", "hardware.accelerator=cpu", "resume=auto", f"runs={tmp_path}/two"]
    line = shlex.join([sys.executable, str(TRAIN), *words])
    script = script.replace(command, line).replace("#SBATCH --gpus-per-node=2\n", "#SBATCH --mem=500M\n")
    (tmp_path / "job.sh").write_text(script)
    subprocess.run(["sbatch", "--wait", "--output=log", "job.sh"], cwd=tmp_path, check=True, timeout=150)
    (double,) = (tmp_path / "two").iterdir()
    one = weights(poslab.load_run(fit(configuration(*GPT, f"runs={tmp_path}/one"))))
    two = weights(poslab.load_run(double))
    assert max(float((one[key] - two[key]).abs().max()) for key in one) < 1e-5
