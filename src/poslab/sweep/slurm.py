"""hydra/launcher=slurm: each job of a sweep is one of the cluster's, which may end it and start it again."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from ..errors import UsageError
from ..optional import need
from ..run import Run
from .job import COMPLETE, FAILED, INTERRUPTED, REPORT, RUNNING, WAITING, Job
from .launch import Sweep
from .run import heard
from .watch import Watch

PAUSE = 2.0  # seconds between two looks at the queue
KILLED = "killed"


class SlurmSweep(Sweep):
    """A sweep whose jobs wait in SLURM's queue, and go there again when their time is up or another job comes first."""

    resumes = True

    def __init__(
        self, context: HydraContext, task: TaskFunction, config: DictConfig, settings: Mapping[str, Any]
    ) -> None:
        if shutil.which("sbatch") is None:
            raise UsageError("hydra/launcher=slurm: there is no sbatch here. Start it where jobs are submitted.")
        need("submitit", "hydra/launcher=slurm", "slurm")
        # whoever does not say hardware=cpu gets GPUs: this machine may have none, the nodes have
        super().__init__(context, task, config, None, ["one of the node's"])
        self.settings = settings

    def run(self, jobs: Sequence[Job], watch: Watch) -> int:
        record = self.directory / "logs" / "slurm.json"
        before = json.loads(record.read_text()) if record.exists() else []
        if still := sorted(set(before) & queue().keys()):
            raise UsageError(
                f"{self.directory}: jobs of this sweep are in the queue: wait, or scancel {' '.join(still)}."
            )
        heeded = 0
        with heard() as signals:
            waiting = {submit(self.directory, job, self.settings): job for job in jobs if job.status == WAITING}
            record.write_text(json.dumps([*waiting]) + "\n")
            began = time.monotonic()
            while waiting:
                for _ in signals[heeded:]:  # they save and end; a second time kills
                    subprocess.run(["scancel", *(["--signal=KILL", "--full"] if heeded else []), *waiting], check=True)
                    heeded += 1
                    watch.stopping([*waiting.values()], killed=heeded > 1)
                time.sleep(PAUSE)
                states = queue()
                for number, job in [*waiting.items()]:
                    job.read_report()
                    job.seconds = time.monotonic() - began
                    if number not in states:
                        del waiting[number]
                        job.status = outcome(job, told=heeded > 0)
                        job.report.unlink(missing_ok=True)
                        watch.ended(job)
                    elif job.status != RUNNING and states[number] == RUNNING.upper():
                        job.status = RUNNING
                        watch.started(job)
                    elif states[number] == "PENDING":
                        job.status = WAITING
                watch.refresh()
        return signals[0] if signals else 0


def submit(directory: Path, job: Job, settings: Mapping[str, Any]) -> str:
    """Queue a job; returns its number. UsageError where SLURM refuses."""
    import submitit

    executor = submitit.SlurmExecutor(directory / "logs" / "slurm")
    asked = {name: settings[name] for name in ("partition", "account", "cpus_per_task", "mem") if settings[name]}
    if job.gpus:
        asked["gpus_per_node"] = job.gpus
    executor.update_parameters(
        job_name=f"poslab {directory.name} {job.label}",
        time=settings["minutes"],
        signal_delay_s=settings["warning"],
        nodes=job.nodes,
        ntasks_per_node=job.processes,
        setup=list(settings["setup"]),
        stderr_to_stdout=True,
        srun_args=["--output", str(job.log), "--open-mode=append", "--kill-on-bad-exit=1"],
        additional_parameters={"requeue": True, **settings["sbatch"]},
        **asked,
    )
    line = ["env", f"{REPORT}={job.report}", *job.command]
    try:
        return str(executor.submit(os.execvp, line[0], line).job_id)
    except submitit.core.utils.FailedJobError as error:
        raise UsageError(f"sbatch refuses {job.label}: {str(error).strip().splitlines()[-1]}") from error


def queue() -> dict[str, str]:
    """Number -> state of the jobs of this user that are not over. Asked again where the controller is busy."""
    command = ["squeue", "-h", "-u", getpass.getuser(), "-o", "%A %T"]
    while (answer := subprocess.run(command, capture_output=True, text=True)).returncode:
        time.sleep(PAUSE)
    return dict(line.split() for line in answer.stdout.splitlines())


def outcome(job: Job, told: bool) -> str:
    """How a job that left the queue ended, by what its run says: the cluster may keep no account."""
    status = Run(job.directory).summary["status"] if job.directory else "failed"
    if status == "complete":
        return COMPLETE
    if told or status == "interrupted":
        return INTERRUPTED
    return FAILED if status == "failed" else KILLED
