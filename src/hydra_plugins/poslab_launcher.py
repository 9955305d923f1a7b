"""hydra/launcher=local: each job of a sweep in a process of its own.

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
ConfigStore.instance().store(group="hydra/launcher", name="local", node=KEYS, provider="poslab")


class LocalLauncher(Launcher):
    """Hands Hydra's jobs to poslab.sweep."""

    def __init__(self, jobs: int | None, gpus: list[Any] | None) -> None:
        self.jobs, self.gpus = jobs, gpus

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        from poslab.sweep.launch import Sweep

        self.sweep = Sweep(hydra_context, task_function, config, self.jobs, self.gpus)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        return self.sweep.launch(job_overrides, initial_job_idx)
