"""How many jobs at once, on which GPUs, with how many threads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..errors import UsageError
from .job import Job


def visible_gpus() -> list[str]:
    """The names by which CUDA_VISIBLE_DEVICES calls the GPUs that a process started here would see."""
    count = torch.cuda.device_count()  # asks the driver and makes no context: jobs may still fork
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:count] if named is not None else [str(index) for index in range(count)]


def devices_of(hardware: Mapping[str, Any], gpus: int) -> tuple[int, int]:
    """Processes and GPUs of a job: `auto` is one in a sweep, which has other jobs for the rest."""
    devices = hardware["devices"]
    processes = len(devices) if isinstance(devices, list) else 1 if devices in ("auto", -1) else int(devices)
    on_gpu = hardware["accelerator"] in ("gpu", "cuda") or (hardware["accelerator"] == "auto" and gpus > 0)
    return processes, processes if on_gpu else 0


class Pool:
    """Gives each job as many GPUs as it asks for, the least busy first.

    Jobs share a GPU only where the person asked for more jobs at once than there are GPUs for.
    """

    def __init__(self, jobs: Sequence[Job], gpus: Sequence[str], at_once: int | None = None) -> None:
        """UsageError where a job asks for more GPUs than there are."""
        most = max((job.gpus for job in jobs), default=0)
        if most > len(gpus):
            raise UsageError(f"A job asks for {most} GPUs and the pool has {len(gpus)}: lower hardware.devices.")
        self.gpus = list(gpus)
        self.at_once = at_once or (len(gpus) // most if most else 1)
        self._jobs_on = Counter(dict.fromkeys(gpus, 0))
        self._running = 0

    def take(self, job: Job) -> dict[str, str] | None:
        """Environment variables for `job`, or None where it has to wait."""
        if self._running >= self.at_once:
            return None
        self._running += 1
        job.taken = sorted(self.gpus, key=lambda gpu: self._jobs_on[gpu])[: job.gpus]
        self._jobs_on.update(job.taken)
        environment = {}
        if job.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(job.taken)
        if self.at_once > 1 and "OMP_NUM_THREADS" not in os.environ:
            threads = len(os.sched_getaffinity(0)) // (self.at_once * job.processes)
            environment["OMP_NUM_THREADS"] = str(max(1, threads))
        return environment

    def give_back(self, job: Job) -> None:
        self._running -= 1
        self._jobs_on.subtract(job.taken)
