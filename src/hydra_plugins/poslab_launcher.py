"""hydra/launcher=local: each job of a sweep in a process of its own. hydra/launcher=slurm: in the queue of a cluster.

Hydra imports this at every start: nothing heavy at the top.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

KEYS = {
    "_target_": "hydra_plugins.poslab_launcher.LocalLauncher",
    "jobs": None,  # at once; null: as many as there are GPUs for, or one on a CPU
    "gpus": None,  # a list, as CUDA_VISIBLE_DEVICES names them; null: all that are visible
}
SLURM = {
    "_target_": "hydra_plugins.poslab_launcher.SlurmLauncher",
    "minutes": 60,  # of one stay on a node; a job that needs more saves, queues again and goes on
    "warning": 90,  # seconds before the end of a stay, to finish a step and save
    "partition": None,
    "account": None,
    "cpus_per_task": None,
    "mem": None,  # on a node, as 16GB
    "setup": [],  # lines of shell that come first: module load cuda
    "sbatch": {},  # any other option of sbatch: +hydra.launcher.sbatch.constraint=a100
}
ConfigStore.instance().store(group="hydra/launcher", name="local", node=KEYS, provider="poslab")
ConfigStore.instance().store(group="hydra/launcher", name="slurm", node=SLURM, provider="poslab")


class LocalLauncher(Launcher):
    """Hands Hydra's jobs to poslab.sweep."""

    def __init__(self, jobs: int | None, gpus: list[Any] | None) -> None:
        self.jobs, self.gpus = jobs, gpus

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        from poslab.sweep.launch import Sweep

        self.sweep = Sweep(hydra_context, task_function, config, self.jobs, self.gpus)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        return self.sweep.launch(job_overrides, initial_job_idx)


class SlurmLauncher(Launcher):
    """Hands Hydra's jobs to poslab.sweep, which hands them to SLURM."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        from poslab.sweep.slurm import SlurmSweep

        self.sweep = SlurmSweep(hydra_context, task_function, config, self.settings)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        return self.sweep.launch(job_overrides, initial_job_idx)
