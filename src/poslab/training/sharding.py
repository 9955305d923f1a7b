"""FSDP2: spread a model over devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.strategies import ModelParallelStrategy
from torch import nn
from torch.distributed.fsdp import fully_shard

from .parts import read_rest


class FullyShardedStrategy(ModelParallelStrategy):
    """Parameters, gradients and optimiser state over all processes.

    Checkpoints are whole, plain files, or folders to which each process writes its part where `sharded`.
    """

    def __init__(self, sharded: bool = False) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=sharded)

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        path = Path(checkpoint_path)
        if path.is_dir():
            read_rest(path)  # torch unpickles what it finds there: look first
        return super().load_checkpoint(path, weights_only)

    def setup_environment(self) -> None:
        self._data_parallel_size = self.world_size  # "auto" would mean the number of nodes
        super().setup_environment()


def shard(model: nn.Module, mesh: Any) -> None:
    """A unit for each block and one for the rest, which holds the encodings: no parameter is in two."""
    for block in model.trunk.blocks:  # type: ignore[union-attr]
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
