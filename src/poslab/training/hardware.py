"""From configs/hardware to arguments of lightning.Trainer."""

from __future__ import annotations

import inspect
import os
from typing import Any

import lightning as L
import torch
from lightning.pytorch.plugins.environments import LightningEnvironment, SLURMEnvironment
from lightning.pytorch.strategies import DDPStrategy

from ..errors import UsageError
from .launched import Launched, launched
from .sharding import FullyShardedStrategy

RESERVED = {  # training decides these
    "accumulate_grad_batches", "callbacks", "check_val_every_n_epoch", "enable_checkpointing", "enable_model_summary",
    "enable_progress_bar", "fast_dev_run", "gradient_clip_algorithm", "gradient_clip_val", "limit_train_batches",
    "logger", "max_epochs", "max_steps", "max_time", "min_epochs", "min_steps", "num_sanity_val_steps",
    "plugins", "overfit_batches", "reload_dataloaders_every_n_epochs", "use_distributed_sampler", "val_check_interval",
}  # fmt: skip


def trainer_arguments(hardware: dict[str, Any]) -> dict[str, Any]:
    """Trainer arguments; UsageError names a key that Trainer does not know or that training decides."""
    arguments = dict(hardware)
    sharded = arguments["strategy"] == "fsdp" and arguments.pop("sharded", False)
    known = set(inspect.signature(L.Trainer.__init__).parameters) - {"self"} - RESERVED
    unknown = sorted(set(arguments) - known)
    if unknown:
        raise UsageError(f"hardware.{unknown[0]} is not an argument of lightning.Trainer that can be set here.")
    if arguments["accelerator"] == "gpu" and not torch.cuda.is_available():
        raise UsageError("hardware.accelerator=gpu: torch sees no GPU here. Use hardware=cpu or hardware=auto.")
    if str(arguments["precision"]).startswith("16"):
        raise UsageError("hardware.precision=16-mixed needs its gradients scaled: use bf16-mixed, or 32-true.")
    arguments |= processes(arguments["devices"], arguments["num_nodes"], launched())
    on_gpu = arguments["accelerator"] in ("auto", "gpu", "cuda") and torch.cuda.is_available()
    if arguments["accelerator"] == "auto" and not on_gpu:
        arguments["accelerator"] = "cpu"  # nothing else is tested
    if arguments["accelerator"] == "cpu" and arguments["devices"] == "auto":
        arguments["devices"] = 1
    if arguments["precision"] is None:
        arguments["precision"] = "bf16-mixed" if on_gpu and torch.cuda.is_bf16_supported() else "32-true"
    if arguments["strategy"] == "ddp":
        arguments["strategy"] = DDPStrategy(find_unused_parameters=False, gradient_as_bucket_view=True)
    elif arguments["strategy"] == "fsdp":
        arguments["strategy"] = FullyShardedStrategy(sharded)
    return arguments


def processes(devices: int | str | list[int], nodes: int, together: Launched | None) -> dict[str, Any]:
    """Which processes train: those that torchrun or srun started, or those that Lightning starts on this machine.

    UsageError where another number was started than asked for.
    """
    if together is None:
        if nodes > 1:
            raise UsageError(
                "hardware.num_nodes: several nodes are started with torchrun or srun: see docs/cluster.md."
            )
        return {"plugins": [LightningEnvironment()]}  # a SLURM job of one process may start others itself
    started, by = together.per_node, together.by
    if (len(devices) if isinstance(devices, list) else devices) not in ("auto", started):
        raise UsageError(
            f"hardware.devices={devices}, and {by} started {started} process{'es' if started > 1 else ''} a node: "
            f"set hardware.devices={started}."
        )
    if nodes not in (1, together.nodes):
        raise UsageError(f"hardware.num_nodes={nodes}, and {by} started {together.nodes}: leave it out.")
    found = {"devices": devices if isinstance(devices, list) else started, "num_nodes": together.nodes}
    if by == "torchrun":
        return found  # Lightning knows it
    os.environ.setdefault("SLURM_NTASKS_PER_NODE", str(started))  # Lightning insists, srun need not be told
    return found | {"plugins": [SLURMEnvironment(auto_requeue=False)]}  # Interrupt does it, with every state
