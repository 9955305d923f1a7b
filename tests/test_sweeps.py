"""A sweep survives its jobs, its parent and its user: processes that are really killed, and what is left of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

import poslab
from poslab.cli import sweeps
from poslab.cli.flags import parse_flags
from poslab.errors import UsageError
from poslab.lock import held, is_held
from poslab.sweep import pool as pools
from poslab.sweep import slurm
from poslab.sweep.command import command, quoted
from poslab.sweep.job import Job, outcome
from poslab.sweep.pool import Pool, devices_of
from poslab.sweep.study import Study
from poslab.sweep.watch import Watch
from poslab.training.fit import fit
from poslab.training.identity import LOCK
from tests.configuration import GPT, configuration
from tests.test_boundary import ROOT, reached

TRAIN = Path(__file__).parents[1] / "train.py"
WORDS = [word for word in GPT if not word.startswith(("steps", "evaluate"))]
DDP = [word for word in WORDS if word != "hardware=cpu"]
DDP += ["hardware=ddp", "hardware.accelerator=cpu", "hardware.devices=2"]


# --- real processes


@contextmanager
def sweeping(tmp_path: Path, *words: str, out: str = "out") -> Iterator[subprocess.Popen[str]]:
    """`python train.py -m` in tmp_path, its output in a file there; killed with all its jobs if a test fails."""
    with (tmp_path / out).open("w") as file:
        process = subprocess.Popen(
            [sys.executable, str(TRAIN), "-m", *words], cwd=tmp_path, stdout=file, stderr=subprocess.STDOUT, text=True
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def wait_for(what: Callable[[], Any], seconds: float = 240) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(0.2)
    raise TimeoutError(what)


def runs(tmp_path: Path, name: str) -> dict[str, Any]:
    """Value of the swept key -> run."""
    found = [poslab.load_run(path.parent) for path in (tmp_path / "runs/sweeps" / name).glob("*/config.yaml")]
    return {f"{run.config['model']['heads']} {run.config['seed']}": run for run in found}


def saved(tmp_path: Path, name: str, key: str) -> Callable[[], Any]:
    """Whether a run has a checkpoint: its process number then."""

    def look() -> int | None:
        run = runs(tmp_path, name).get(key)
        if run is None or not (run.directory / "checkpoints/last.ckpt").exists() or run.summary["status"] == "complete":
            return None
        return int((run.directory / LOCK).read_text())

    return look


def processes(session: int) -> list[int]:
    """Living training processes of a session, which is what a job is."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state = (path / "stat").read_text().rpartition(")")[2].split()
            if int(state[3]) == session and state[0] != "Z" and "train.py" in (path / "cmdline").read_text():
                found.append(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def row(tmp_path: Path, label: str) -> str:
    """The row of a job in the table at the end."""
    table = (tmp_path / "out").read_text().partition("validation")[2]
    return next(line for line in table.splitlines() if line.strip().startswith(f"{label} "))


def test_one_job_dies_and_the_others_finish_and_the_sweep_goes_on(tmp_path: Path) -> None:
    words = [*WORDS, "steps=300", "validate_every=30", "sweep=study", "hydra.launcher.jobs=2"]
    with sweeping(tmp_path, *words, "model.heads=2,4,3") as process:
        wait_for(lambda: "started" in (tmp_path / "out").read_text())
        with sweeping(tmp_path, *words, "model.heads=4", out="second") as second:  # the same sweep at once
            os.kill(wait_for(saved(tmp_path, "study", "2 0")), signal.SIGKILL)
            assert second.wait(120) == 2
        assert "is running this sweep" in (tmp_path / "second").read_text()
        assert process.wait(300) == 1
    out = (tmp_path / "out").read_text()
    assert "killed by signal 9" in row(tmp_path, "model.heads=2") and "_000.log" in row(tmp_path, "model.heads=2")
    assert re.search(r" complete +loss \d", row(tmp_path, "model.heads=4"))
    assert "failed" in row(tmp_path, "model.heads=3") and "choose heads that divide dim" in out
    assert out.count("started ") == 3 and out.count("finished ") == 1
    assert "python eval.py runs='runs/sweeps/study/*'" in out
    before = runs(tmp_path, "study")
    assert before.keys() == {"2 0", "4 0"} and before["2 0"].summary["status"] == "running"

    with sweeping(tmp_path, *words, "model.heads=2,4") as process:
        assert process.wait(300) == 0
    after = runs(tmp_path, "study")
    assert [run.directory for run in after.values()] == [before[key].directory for key in after]
    assert all(run.summary["status"] == "complete" and run.summary["steps"] == 300 for run in after.values())
    assert "going on after step" in (after["2 0"].directory / "train.log").read_text()
    assert "skipped: complete" in row(tmp_path, "model.heads=4")
    assert (tmp_path / "out").read_text().count("started ") == 1

    with sweeping(tmp_path, *words, "model.heads=2,4", "optim.lr=0.5") as process:
        assert process.wait(120) == 2
    assert "optim.lr: 0.002 there, 0.5 here" in (tmp_path / "out").read_text()


def test_jobs_of_two_processes_end_with_their_parent_and_save_when_asked(tmp_path: Path) -> None:
    words = [*DDP, "steps=20000", "validate_every=20", "sweep=pairs", "seed=0,1"]  # more than a fast machine finishes
    with sweeping(tmp_path, *words) as process:
        job = wait_for(saved(tmp_path, "pairs", "2 0"))
        assert len(processes(job)) == 2
        process.kill()
        wait_for(lambda: not processes(job), seconds=10)
    first = runs(tmp_path, "pairs")["2 0"]
    assert first.summary["status"] == "running"
    wait_for(lambda: not is_held(first.directory / LOCK), seconds=10)
    before = first.checkpoint("last").stat().st_mtime_ns

    with sweeping(tmp_path, *words) as process:
        wait_for(lambda: first.checkpoint("last").stat().st_mtime_ns > before)
        job = int((first.directory / LOCK).read_text())
        assert len(processes(job)) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        assert not processes(job)
    assert " interrupted " in row(tmp_path, "seed=0") and " not started " in row(tmp_path, "seed=1")
    found = runs(tmp_path, "pairs")
    assert len(list((tmp_path / "runs/sweeps/pairs").glob("*/config.yaml"))) == len(found) == 1  # not one a process
    last = torch.load(found["2 0"].checkpoint("last"), weights_only=True)["global_step"]
    assert found["2 0"].summary["status"] == "interrupted" and found["2 0"].summary["steps"] == last < 20000


# --- which GPUs, how many threads


def job(gpus: int = 0, processes: int = 1) -> Job:
    return Job("", [], Path("x.log"), processes, gpus)


def test_each_job_has_gpus_of_its_own() -> None:
    jobs = [job(2, 2) for _ in range(3)]
    pool = Pool(jobs, ["0", "3", "5", "GPU-a"])
    taken = [pool.take(each) for each in jobs]
    assert [each and each["CUDA_VISIBLE_DEVICES"] for each in taken] == ["0,3", "5,GPU-a", None]
    pool.give_back(jobs[1])
    again = pool.take(jobs[2])
    assert again and again["CUDA_VISIBLE_DEVICES"] == "5,GPU-a"
    with pytest.raises(UsageError, match="asks for 2 GPUs and the pool has 1"):
        Pool(jobs, ["0"])


def test_jobs_share_a_gpu_only_where_more_are_asked_for() -> None:
    jobs = [job(1) for _ in range(4)]
    pool = Pool(jobs, ["0", "1"], at_once=3)
    taken = [pool.take(each) for each in jobs]
    assert [each and each["CUDA_VISIBLE_DEVICES"] for each in taken] == ["0", "1", "0", None]


def test_jobs_on_a_cpu_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(pools.os, "sched_getaffinity", lambda _: set(range(8)))
    assert Pool([job()], []).take(job()) == {}  # one at a time has all
    assert Pool([job()], [], at_once=2).take(job()) == {"OMP_NUM_THREADS": "4"}
    assert Pool([job()], [], at_once=2).take(job(processes=2)) == {"OMP_NUM_THREADS": "2"}
    assert Pool([job()], [], at_once=9).take(job()) == {"OMP_NUM_THREADS": "1"}
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Pool([job()], [], at_once=2).take(job()) == {}


@pytest.mark.parametrize(
    ("accelerator", "devices", "gpus", "expected"),
    [
        ("auto", "auto", 4, (1, 1)),
        ("auto", "auto", 0, (1, 0)),
        ("gpu", 2, 4, (2, 2)),
        ("auto", [2, 3], 4, (2, 2)),
        ("cpu", 2, 4, (2, 0)),
    ],
)
def test_devices_of_a_job(accelerator: str, devices: Any, gpus: int, expected: tuple[int, int]) -> None:
    assert devices_of({"accelerator": accelerator, "devices": devices}, gpus) == expected


def test_a_sweep_waits_without_lightning() -> None:
    found = {name.split(".")[0] for _, name in reached(ROOT / "sweep" / "launch.py", set())}
    assert "lightning" not in found and {"hydra", "torch"} <= found


def test_how_a_job_ended() -> None:
    assert [outcome(code, told=False) for code in (0, 1, 2, -9, 130, 143)] == [
        "complete", "failed", "failed", "killed by signal 9", "interrupted", "interrupted",
    ]  # fmt: skip
    assert [outcome(code, told=True) for code in (0, 1, -2)] == ["complete", "interrupted", "interrupted"]


def test_a_sweep_whose_jobs_wait_in_a_queue_is_not_submitted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = object.__new__(slurm.SlurmSweep)  # made by Hydra otherwise
    sweep.directory = tmp_path
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/slurm.json").write_text('["5", "6"]')
    monkeypatch.setattr(slurm, "queue", lambda: {"4": "RUNNING", "6": "PENDING"})
    with pytest.raises(UsageError, match=r"scancel 6\.$"):
        sweep.run([job()], Watch([]))


def test_how_a_job_of_a_cluster_ended(tmp_path: Path) -> None:
    ended = job()
    assert slurm.outcome(ended, told=False) == "failed"  # before there was a run
    ended.directory = tmp_path
    for status, expected in {"complete": "complete", "interrupted": "interrupted", "running": "killed"}.items():
        (tmp_path / "summary.json").write_text(f'{{"status": "{status}"}}')
        assert slurm.outcome(ended, told=False) == expected
    assert slurm.outcome(ended, told=True) == "interrupted"


# --- the command line of a job


def test_a_job_gets_what_its_configuration_needs_and_nothing_of_the_sweep(tmp_path: Path) -> None:
    flags = parse_flags(["-m", "--config-dir", "my configs", "pos=a,b"])
    hydra = ["hydra.launcher.jobs=2", "hydra/launcher=local", "hydra.sweep.dir='/x'", "hydra.job.name=y"]
    hydra += ["hydra.searchpath=[file:///tmp/poslab-compositions-abc]"]
    words = ["pos=a+b", "runs=old", "+hardware.profiler=simple"]
    line = command(TRAIN, flags, words, hydra, {"runs": quoted(tmp_path)})
    assert line[:2] == [sys.executable, str(TRAIN)]
    assert line[2:] == ["pos=a+b", "+hardware.profiler=simple", f"runs={tmp_path}", "hydra.mode=RUN",
                        "hydra.job.name=y", "--config-dir", "my configs"]  # fmt: skip
    assert configuration(f"runs={quoted(Path('/a b/c=d,e/it' + chr(39) + 's'))}")["runs"] == "/a b/c=d,e/it's"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("sweep=a", "add -m"),
        ("-m sweep=a/b", "becomes a folder"),
        ("-m sweep=a hydra/launcher=basic", "local and slurm keep sweeps"),
        ("-m resume=auto seed=0,1 hydra/launcher=slurm", "sweep=NAME"),
        ("-m resume=auto seed=0,1", "sweep=NAME"),
    ],
)
def test_what_does_not_go_with_a_sweep(line: str, sentence: str) -> None:
    flags = parse_flags(line.split())
    with pytest.raises(UsageError, match=sentence):
        sweeps.check_sweep_keys(flags.overrides, flags.multirun, experiment=False)


@pytest.mark.parametrize(
    ("starter", "environment"),
    [("torchrun", {"TORCHELASTIC_RUN_ID": "x"}), ("srun", {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"})],
)
def test_processes_that_were_started_together_do_not_sweep(
    monkeypatch: pytest.MonkeyPatch, starter: str, environment: dict[str, str]
) -> None:
    sweeps.check_sweep_keys(["seed=0,1"], True, experiment=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"under {starter}"):
        sweeps.check_sweep_keys(["seed=0,1"], True, experiment=False)


# --- what belongs to a sweep


def test_a_sweep_grows_by_what_is_swept_and_refuses_the_rest(tmp_path: Path) -> None:
    held_run = fit(configuration(*GPT, "pos=rope", f"runs={tmp_path}"))
    (tmp_path / "logs").mkdir()
    study = Study(tmp_path, ["pos"])
    study.record()
    assert study.complete(configuration(*GPT, "pos=rope", "workers=2")).directory == held_run  # type: ignore[union-attr]
    assert study.complete(configuration(*GPT, "pos=rope", "seed=1")) is None
    for words in (["pos=rope", "seed=3"], ["pos=alibi"], ["pos=t5", "seed=1"], ["pos=rope", "workers=2"]):
        Study(tmp_path, []).check(configuration(*GPT, *words))  # pos was swept before
    Study(tmp_path, ["steps", "pos/scaling"]).check(configuration(*GPT, "pos=rope", "steps=9", "pos/scaling=yarn"))
    for words, difference in {
        ("pos=rope", "pos.theta=500"): "pos.theta: 10000 there, 500 here",
        ("pos=alibi", "steps=9"): "steps: 14 there, 9 here",
        ("pos=rope", "data.length=5"): "data.length: 4 there, 5 here",
    }.items():
        with pytest.raises(UsageError, match=re.escape(difference)) as caught:
            study.check(configuration(*GPT, *words))
        assert str(caught.value).count(" there, ") == 1
    Study(tmp_path, ["model"]).check(configuration("model=gpt2_124m", "pos=rope"))  # another model sets everything


# --- going on


def stopped_at(tmp_path: Path, steps: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of 14 steps that died after `steps` and its validation."""
    from poslab.training.interrupt import Interrupt

    def die(self: Interrupt, trainer: Any, *rest: Any) -> None:
        if trainer.global_step == steps:
            raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(Interrupt, "on_train_batch_end", die)
        with pytest.raises(RuntimeError, match="power cut"):
            fit(configuration(*GPT, f"runs={tmp_path}"))
    return max(tmp_path.glob("*"), key=lambda path: path.stat().st_mtime_ns)


def auto(tmp_path: Path, *words: str) -> Path:
    return fit(configuration(*GPT, f"runs={tmp_path}", "resume=auto", *words))


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return torch.load(directory / "checkpoints/last.ckpt", weights_only=True)["state_dict"]


def test_auto_finds_the_unfinished_run_of_the_same_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stopped_at(tmp_path, 7, monkeypatch)
    other = auto(tmp_path, "seed=1")
    assert other != first and "no unfinished run like this" in (other / "train.log").read_text()
    with held(first / LOCK, "busy"):  # somebody trains it
        fresh = auto(tmp_path)
        assert fresh not in (first, other)
        with pytest.raises(UsageError, match="is training it"):
            fit(configuration(f"resume={first}"))
    assert auto(tmp_path, "workers=1") == first
    assert "going on after step 5" in (first / "train.log").read_text()
    assert all(torch.equal(value, weights(fresh)[key]) for key, value in weights(first).items())
    never_saved = stopped_at(tmp_path, 2, monkeypatch)
    with pytest.raises(UsageError, match="stopped before it saved one"):
        fit(configuration(f"resume={never_saved}"))
    assert auto(tmp_path) == never_saved
    assert all(torch.equal(value, weights(fresh)[key]) for key, value in weights(never_saved).items())


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fit(configuration(*GPT, f"runs={tmp_path}/whole"))
    assert {path.name for path in (whole / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    died = stopped_at(tmp_path / "died", 12, monkeypatch)
    last = died / "checkpoints/last.ckpt"
    last.write_bytes(last.read_bytes()[:5000])
    assert fit(configuration(f"resume={died}")) == died
    log = (died / "train.log").read_text()
    assert "last.ckpt cannot be read" in log and "going on from previous.ckpt, step 5" in log
    assert all(torch.equal(value, weights(whole)[key]) for key, value in weights(died).items())
    died = stopped_at(tmp_path / "again", 12, monkeypatch)
    for path in (died / "checkpoints").glob("*.ckpt"):
        path.write_bytes(b"")
    with pytest.raises(UsageError, match="its checkpoints cannot be read"):
        fit(configuration(f"resume={died}"))
    assert auto(tmp_path / "again") == died and "starting over" in (died / "train.log").read_text()
    assert all(torch.equal(value, weights(whole)[key]) for key, value in weights(died).items())
