"""A training step as something to time, and the proof that two of them are the same job."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from poslab.evaluators.timing import loss, now
from poslab.training.optimizer import make_optimizer

from .memory import peak_bytes

# A fixed batch is learned a little in every step, and not by heart
OPTIM = {"lr": 1e-4, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.05}
CLIP = 1.0


class Step:
    """Forward, backward, gradient norm clipped, fused AdamW, of one model on one batch (inputs, targets)."""

    def __init__(
        self, model: nn.Module, batch: tuple[Tensor, Tensor], compiled: bool = False, half: bool = False
    ) -> None:
        """`half`: under bfloat16 autocast."""
        self.inputs, self.targets = batch
        self.model, self.half = model.to(self.inputs.device).train(), half
        self.optimizer = make_optimizer(self.model, OPTIM)
        self.losses: list[Tensor] = []  # of the first step and of the last
        if compiled:
            allow_many_models()
            self.model.compile()

    def __call__(self) -> float:
        """Seconds of a step."""
        began = now(self.inputs.device)
        with torch.autocast(self.inputs.device.type, torch.bfloat16, enabled=self.half):
            value = loss(self.model, self.inputs, self.targets)
        value.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()
        seconds = now(self.inputs.device) - began
        self.losses[1:] = [value.detach()]
        return seconds

    def peak_bytes(self) -> int:
        """The most that a step holds beside weights and optimiser; not the first step, which makes the latter."""
        device = self.inputs.device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            before = torch.cuda.memory_allocated(device)
            self()
            return torch.cuda.max_memory_allocated(device) - before
        self.losses.clear()  # nothing older than the count is freed within it
        return peak_bytes(self)

    def check(self) -> None:
        """RuntimeError unless it has learned something, so that nobody times a model that does nothing."""
        first, last = float(self.losses[0]), float(self.losses[-1])
        if not (math.isfinite(last) and last < first):
            raise RuntimeError(f"The loss went from {first} to {last}: what was timed is no training.")


def allow_many_models() -> None:
    """To the compiler another model is the same code once more, and from the ninth on it would silently not compile."""
    torch._dynamo.config.recompile_limit = torch._dynamo.config.accumulated_recompile_limit = 1000
    torch._dynamo.config.fail_on_recompile_limit_hit = True
