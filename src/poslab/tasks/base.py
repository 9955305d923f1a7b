"""What both tasks share: the step, the optimiser, and validation that counts every sample once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from ..data.order import Training, mixed
from ..training.optimizer import make_optimizer, warmup_cosine
from ..training.sharding import FullyShardedStrategy, shard


class Task(L.LightningModule):
    """Trains `model` on `data`. A task says `sums(batch)`; everything else is here.

    The loss of a step is the sum over its samples (or target tokens) divided by how many there are,
    over all micro-batches and devices together, also where they hold unequally many.

    Args:
        optim: the keys of configs/optim. training: the order of the samples, this rank's after `setup`.
    """

    def __init__(self, model: nn.Module, data: Any, optim: Mapping[str, Any], training: Training) -> None:
        super().__init__()
        self.model, self.data, self.optim, self.training_order = model, data, optim, training
        self.uniform = getattr(data, "dense", True)  # every micro-batch has equally many targets
        self.latest: dict[str, Tensor] = {}  # of the last step, on the device: read when they are logged
        self.validation: dict[str, float] = {}
        self._targets = torch.zeros(())

    def sums(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sums over a batch: "loss" (what is trained), "nll", "correct", and "count" to divide by."""
        raise NotImplementedError

    def metrics(self, sums: dict[str, float]) -> dict[str, float]:
        """Means and what follows from them, given the sums over a whole split."""
        raise NotImplementedError

    def setup(self, stage: str) -> None:
        self.training_order = self.training_order.on_rank(self.trainer.global_rank)

    def configure_model(self) -> None:
        if isinstance(self.trainer.strategy, FullyShardedStrategy):
            shard(self.model, self.device_mesh["data_parallel"])  # type: ignore[index]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # Lightning counts micro-batches, and a step may take another number of them now
        now = checkpoint["global_step"] * self.training_order.accumulate
        for progress in checkpoint["loops"]["fit_loop"]["epoch_loop.batch_progress"].values():
            if isinstance(progress, dict):
                unfinished = progress["ready"] - progress["completed"]  # 1 where it was saved at the end of a batch
                progress |= {"ready": now, "started": now, "processed": now, "completed": now - unfinished}

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        # dropout and stochastic depth become a function of (seed, micro-batch, rank): a resumed run
        # draws what an undisturbed one drew, and no two ranks or steps draw alike
        order = self.training_order
        torch.manual_seed(mixed(order.seed, "dropout", batch_idx, order.rank))

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        sums = self.sums(self.augmented(batch, batch_idx))
        if self.uniform:
            loss = sums["loss"] / sums["count"]
        else:
            nominal = batch["targets"].numel()
            self._targets = self._targets.to(self.device) + sums["count"] / nominal
            loss = sums["loss"] / nominal
        self.latest["loss"] = (sums["nll"] / sums["count"].clamp(min=1)).detach()
        return loss

    def augmented(self, batch: dict[str, Tensor], batch_idx: int) -> dict[str, Tensor]:
        return batch

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.uniform:
            return
        # Gradients are means over micro-batches and ranks of sums / nominal: turn them into sum over sum
        targets, self._targets = self._targets, torch.zeros(())
        if self.trainer.world_size > 1:
            targets = self.trainer.strategy.reduce(targets, reduce_op="sum")  # type: ignore[assignment]
        parts = self.trainer.world_size * self.training_order.accumulate
        grads = [p.grad for p in self.parameters() if p.grad is not None]
        torch._foreach_mul_(grads, parts / targets.clamp(min=1e-12))

    def configure_gradient_clipping(self, optimizer: torch.optim.Optimizer, *_: Any, **__: Any) -> None:
        clip = self.optim["clip"]
        norm = nn.utils.clip_grad_norm_(self.parameters(), float("inf") if clip is None else clip)
        self.latest["gradient_norm"] = norm.full_tensor() if isinstance(norm, DTensor) else norm  # sharded: FSDP2

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = make_optimizer(self.model, self.optim)
        schedule = warmup_cosine(self.training_order.steps, self.optim["warmup"], self.optim["final"])
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_validation_epoch_start(self) -> None:
        self._totals: dict[str, Tensor] = {}

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        for name, value in self.sums(batch).items():
            self._totals[name] = self._totals.get(name, 0) + value.double()  # type: ignore[operator]

    def on_validation_epoch_end(self) -> None:
        names = sorted(self._totals)
        totals = torch.stack([self._totals[name] for name in names])
        if self.trainer.world_size > 1:
            totals = self.trainer.strategy.reduce(totals, reduce_op="sum")  # type: ignore[assignment]
        self.validation = self.metrics(dict(zip(names, totals.tolist(), strict=True)))
