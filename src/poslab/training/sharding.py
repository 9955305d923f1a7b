"""FSDP2: spread a model over devices."""

from __future__ import annotations

from typing import Any

from lightning.pytorch.strategies import ModelParallelStrategy
from torch import nn
from torch.distributed.fsdp import fully_shard


class FullyShardedStrategy(ModelParallelStrategy):
    """Parameters, gradients and optimiser state over all processes; checkpoints are whole, plain files."""

    def __init__(self) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False)

    def setup_environment(self) -> None:
        self._data_parallel_size = self.world_size  # "auto" would mean the number of nodes
        super().setup_environment()


def shard(model: nn.Module, mesh: Any) -> None:
    """A unit for each block and one for the rest, which holds the encodings: no parameter is in two."""
    for block in model.trunk.blocks:  # type: ignore[union-attr]
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
