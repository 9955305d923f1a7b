"""Who started the processes of this job: torchrun, SLURM's srun, or nobody but a person."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import count
from pathlib import Path

import torch

_jobs = count()  # of this process: every rank of a sweep counts alike


@dataclass(frozen=True)
class Launched:
    """The processes that were started together, this one among them."""

    by: str  # torchrun, srun
    rank: int
    world: int
    per_node: int
    name: str

    @property
    def nodes(self) -> int:
        return self.world // self.per_node

    def agree(self, choose: Callable[[], Path | None]) -> Path | None:
        """What rank 0 chooses, on all ranks."""
        key = f"poslab/{self.name}/{next(_jobs)}"
        if self.rank == 0:
            store(self).set(key, str(choose() or "none"))
        chosen = store(self).get(key).decode()
        return None if chosen == "none" else Path(chosen)


@cache
def store(together: Launched) -> torch.distributed.TCPStore:
    """The store that the process group will use: kept, since it ends with the object on rank 0, read or not."""
    serves = together.rank == 0
    if together.by == "torchrun":
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        serves &= os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # else the agent does
    else:
        from lightning.fabric.plugins.environments import SLURMEnvironment

        slurm = SLURMEnvironment(auto_requeue=False)
        address, port = slurm.main_address, slurm.main_port
    return torch.distributed.TCPStore(
        address, port, is_master=serves, timeout=timedelta(seconds=120), multi_tenant=True
    )


def launched() -> Launched | None:
    """None for a process that was started alone, also where SLURM started it alone, and may start others itself."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        # no count of restarts in it: each has a store of its own, and the agents of two nodes count differently
        name = os.environ["TORCHELASTIC_RUN_ID"]
        rank, world, per_node = (int(os.environ[key]) for key in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
        return Launched("torchrun", rank, world, per_node, name)
    if "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", "1")) > 1:
        world, nodes = int(os.environ["SLURM_NTASKS"]), int(os.environ.get("SLURM_NNODES", "1"))
        return Launched("srun", int(os.environ["SLURM_PROCID"]), world, world // nodes, os.environ["SLURM_STEP_ID"])
    return None
