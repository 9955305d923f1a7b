"""Who started the processes of this job: torchrun, SLURM's srun, or nobody but a person."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
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
        own = self.rank == 0
        if self.by == "torchrun":
            address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
            own &= os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # else the agent holds it already
        else:
            from lightning.fabric.plugins.environments import SLURMEnvironment

            slurm = SLURMEnvironment(auto_requeue=False)
            address, port = slurm.main_address, slurm.main_port + 7000  # its own port is for training
        store = torch.distributed.TCPStore(address, port, is_master=own, timeout=timedelta(seconds=120))
        key = f"poslab/{self.name}/{next(_jobs)}"
        if self.rank == 0:
            store.set(key, str(choose() or "none"))
        chosen = store.get(key).decode()
        if store.add(f"{key}/read", 1) == self.world:
            store.set(f"{key}/done", "")
        if own:
            store.wait([f"{key}/done"])  # the store goes with the one who holds it: all have read before
        return None if chosen == "none" else Path(chosen)


def launched() -> Launched | None:
    """None for a process that was started alone, also where SLURM started it alone, and may start others itself."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        # no count of restarts in it: the store is another one after each, and agents count them differently
        name = os.environ["TORCHELASTIC_RUN_ID"]
        rank, world, per_node = (int(os.environ[key]) for key in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
        return Launched("torchrun", rank, world, per_node, name)
    if "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", "1")) > 1:
        world, nodes = int(os.environ["SLURM_NTASKS"]), int(os.environ.get("SLURM_NNODES", "1"))
        return Launched("srun", int(os.environ["SLURM_PROCID"]), world, world // nodes, os.environ["SLURM_STEP_ID"])
    return None
