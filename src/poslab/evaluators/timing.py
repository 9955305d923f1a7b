"""One model at work: how long a training step and a forward pass take, and what they hold and compute."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ..positions import Spec
from ..positions.none import NoPosition
from .base import Evaluation


class Workload:
    """A model and one batch. Its weights stay as they are: the learning rate is 0."""

    def __init__(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> None:
        self.model, self.inputs, self.targets = model, inputs, targets
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)

    def train(self) -> float:
        """Seconds of a training step."""
        was_training = self.model.training
        self.model.train()
        try:
            began = now(self.inputs.device)
            loss(self.model, self.inputs, self.targets).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            return now(self.inputs.device) - began
        finally:  # also where memory ends in the middle
            self.optimizer.zero_grad()
            self.model.train(was_training)

    def read(self) -> float:
        """Seconds of a forward pass in evaluation mode."""
        with Evaluation(self.model):
            began = now(self.inputs.device)
            self.model(self.inputs)
            return now(self.inputs.device) - began


def now(device: torch.device) -> float:
    """Seconds, when the device has done what it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def loss(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats, of tokens or of images."""
    logits = model(inputs).float()
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def without_positions(model: Any) -> nn.Module:
    """A copy of a GPT or ViT whose trunk has no position encoding."""
    plain = copy.deepcopy(model)
    spec: Spec = model.trunk.encoding.spec
    plain.trunk.position = nn.ModuleList([NoPosition(spec)])
    plain.trunk.position_of_layer = [0] * len(plain.trunk.blocks)
    return plain


def forward_flops(model: nn.Module, inputs: Tensor) -> int:
    """Of the matrix products of a forward pass, two for each multiplication and addition.

    On the math path of attention: the counter (torch 2.14) knows nothing of the fused CPU kernel, which it
    counts as 0, and a causal CUDA kernel as if it skipped nothing.
    """
    with Evaluation(model), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(inputs)
    return counter.get_total_flops()


def activation_bytes(model: nn.Module, inputs: Tensor, targets: Tensor) -> int:
    """Bytes of the distinct storages that a backward pass waits for; weights and inputs are not among them."""
    given = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), inputs, targets)}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in given:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    was_training = model.training
    model.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        # the graph holds all of them until here, so that no address is given twice
        graph = loss(model, inputs, targets)
    model.train(was_training)
    del graph
    return sum(kept.values())
