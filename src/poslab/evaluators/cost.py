"""What does an encoding cost: parameters, operations, time, memory?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..device import device_name
from ..positions import NotDefined
from .base import WHOLE, Evaluator, Measurement, Metric, Part, Size
from .history import time_to
from .resolution import check_grid
from .timing import Workload, activation_bytes, forward_flops, without_positions

WARM_UP = 2  # steps before the first that is timed
MIB = 1 << 20
MILLION = 1_000_000


class Cost(Evaluator):
    """Training steps and forward passes on random inputs, timed by turns with the same model without an encoding.

    Runs are measured one after the other, so their absolute times compare only on a machine that is as busy
    at the end as at the start. A ratio to the same model without positions does not need that: both are timed
    in alternating steps, and what disturbs one disturbs the other.

    - training step: forward, backward, gradient norm clipped, fused AdamW at learning rate 0, so that every
      repeat is of the trained weights; in the precision of the weights, not compiled.
    - FLOPs: 2 for each multiplication and addition in the matrix products of one sample's forward pass, as
      `torch.utils.flop_counter` counts them. Attention is counted as its math path computes it on every
      device: whole score matrices, also where a causal kernel skips half. What is not a matrix product is
      not counted: rotations (also complex ones), masks, softmax, norms, a matrix exponential.
    - activations: what autograd keeps of one training sample from the forward pass to the backward pass.
    - peak memory: the most that the CUDA allocator held in a training step, weights and optimiser included;
      the CPU keeps no such count and gets no number.
    - time to the target: of training, to the first validation at or under `target` (in nats).

    Args:
        history: metrics.csv of the run. device: where the model is.
        batch_size: samples of the trained size at once; larger sizes take fewer.
        repeats: timed steps, which are also what an interval is over.
        target: validation loss; None asks for no time.
    """

    name = "cost"
    question = "Cost"
    axis = "size, tokens or pixels"
    logarithmic = True
    metrics = {
        "overhead": Metric("training step / without encoding", higher_is_better=False),
        "inference_overhead": Metric("forward pass / without encoding", higher_is_better=False),
        "step_time": Metric("training step, ms", higher_is_better=False),
        "train_throughput": Metric("trained tokens or images per second", higher_is_better=True),
        "throughput": Metric("read tokens or images per second", higher_is_better=True),
        "flops": Metric("forward pass of a sample, million FLOPs", higher_is_better=False, exact=True),
        "parameters": Metric("parameters", higher_is_better=False, exact=True),
        "position_parameters": Metric("of them of positions", higher_is_better=False, exact=True),
        "activations": Metric("activations of a sample, MiB", higher_is_better=False, exact=True),
        "memory": Metric("peak memory of training, MiB", higher_is_better=False, exact=True),
        "target_time": Metric("training to the target loss, s", higher_is_better=False, exact=True),
    }
    by_metric = True
    compared = False  # one run's clock is not another's
    divisible = False
    reads_history = reads_device = True

    def __init__(
        self,
        sizes: Any = None,
        ratios: Sequence[float] = (),
        repeats: int = 10,
        target: float | None = None,
        batch_size: int = 32,
        history: Path | None = None,
        device: torch.device | None = None,
    ) -> None:
        super().__init__(sizes, ratios, batch_size)
        if repeats < 2:
            raise ValueError(f"evaluate.cost.repeats={repeats}: an interval wants 2 or more.")
        self.repeats, self.target, self.history = repeats, target, history
        self.device = device or torch.device("cpu")

    def suits(self, data: Any) -> bool:
        return data.kind in ("image", "text")

    def protocol(self, data: Any) -> str:
        where = device_name(self.device)
        if self.device.type == "cpu":
            threads = torch.get_num_threads()
            where += f" with {threads} thread{'s' * (threads > 1)}"
        target = "" if self.target is None else f"; time to a validation loss of {self.target:g}"
        return (
            f"{where}, {torch.get_default_dtype()}".replace("torch.", "")
            + f", random inputs, batch {self.batch_size} of the trained size (fewer of larger ones), {self.repeats} "
            f"repeats after {WARM_UP}, by turns with the same model without an encoding, run after run{target}"
        )

    def clusters(self, data: Any) -> str:
        return "repeats"

    def measure(self, model: nn.Module, data: Any, size: Size, part: Part = WHOLE) -> Measurement:
        if data.kind == "image":
            check_grid(model, size)
        samples = self.batch(size, self.trained(data))
        inputs, targets = random_batch(data, size, samples, next(model.parameters()).device)
        items = samples * (size[0] if data.kind == "text" else 1)
        counted = self.count(model, inputs[:1], targets[:1])
        work = Workload(model, inputs, targets)
        if inputs.device.type == "cuda":
            work.train()
            torch.cuda.reset_peak_memory_stats(inputs.device)
            work.train()
            counted["memory"] = torch.cuda.max_memory_allocated(inputs.device) / MIB
        plain = Workload(without_positions(model), inputs, targets)
        seconds = {"train": ([], []), "read": ([], [])}  # type: dict[str, tuple[list[float], list[float]]]
        for repeat in range(WARM_UP + self.repeats):
            for ours, each in enumerate((plain, work)):
                for name, taken in (("train", each.train()), ("read", each.read())):
                    if repeat >= WARM_UP:
                        seconds[name][ours].append(taken)
        (plain_step, step), (plain_pass, forward) = (map(np.array, seconds[name]) for name in ("train", "read"))
        one = np.ones(self.repeats)
        timed = {
            "overhead": (step, plain_step),
            "inference_overhead": (forward, plain_pass),
            "step_time": (1000 * step, one),
            "train_throughput": (items * one, step),
            "throughput": (items * one, forward),
        }
        reached, undefined = self.time_to_target()
        totals = {name: total for name, (total, _) in timed.items()}
        weights = {name: weight for name, (_, weight) in timed.items()}
        totals |= {name: number * one for name, number in (counted | reached).items()}
        return Measurement(totals, one, np.arange(self.repeats), weights, undefined)

    def count(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        """What is the same at every repeat."""
        position = sum(parameter.numel() for parameter in model.trunk.position.parameters())  # type: ignore[union-attr]
        return {
            "flops": forward_flops(model, inputs) / MILLION,
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "position_parameters": position,
            "activations": activation_bytes(model, inputs, targets) / MIB,
        }

    def time_to_target(self) -> tuple[dict[str, float], dict[str, str]]:
        """The metric and its seconds, or the metric and why there are none."""
        if self.target is None or self.history is None:
            return {}, {}
        try:
            return {"target_time": time_to(self.target, self.history)}, {}
        except NotDefined as error:
            return {}, {"target_time": str(error)}


def random_batch(data: Any, size: Size, samples: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Inputs and targets of `samples` samples: what is in them changes no time."""
    generator = torch.Generator().manual_seed(0)
    if data.kind == "text":
        tokens = torch.randint(data.vocab, (2, samples, *size), generator=generator)
        return tokens[0].to(device), tokens[1].to(device)
    images = torch.randn(samples, data.channels, *size, generator=generator)
    return images.to(device), torch.randint(data.classes, (samples,), generator=generator).to(device)
