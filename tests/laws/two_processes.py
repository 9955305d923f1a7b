"""What each of two processes does in test_distributed.py: all encodings, one after the other."""

from __future__ import annotations

import copy
import datetime
import json
import os
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from poslab.positions import PositionEncoding, Spec

from . import build
from .build import Setting

WORLD, STEPS, BATCH = 2, 2, 4


def batch(setting: Setting, step: int) -> tuple[Tensor, Tensor]:
    """Inputs and targets of the whole batch of a step."""
    x = build.inputs(setting, batch=BATCH, seed=step)
    return x, (x if setting.causal else torch.arange(BATCH) % build.CLASSES)


def train(model: nn.Module, setting: Setting, part: slice) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        torch.manual_seed(step)  # what an encoding draws in training is drawn alike everywhere
        x, target = (tensor[part] for tensor in batch(setting, step))
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, -2), target.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def flat(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


class Unused(PositionEncoding):
    """A parameter that no forward pass reads."""

    unbounded = True

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.forgotten = nn.Parameter(torch.zeros(3))


def check(word: str | build.Factory, setting: Setting, rank: int) -> str:
    """Two steps of two processes: equal on both, and equal to one process with the whole batch."""
    alone = build.model(word, setting).train()
    start = flat(alone)
    together = copy.deepcopy(alone)
    train(DistributedDataParallel(together, find_unused_parameters=False), setting, slice(rank, None, WORLD))
    own = flat(together)
    both = [torch.empty_like(own) for _ in range(WORLD)]
    dist.all_gather(both, own)
    if not torch.equal(both[0], both[1]):
        return f"processes differ by {(both[0] - both[1]).abs().max():.2g}"
    train(alone, setting, slice(None))
    gap = (flat(alone) - own).abs().max()
    if gap > 1e-5:
        return f"two processes differ from one by {gap:.2g}"
    return "equal" if (own - start).abs().max() > 1e-3 else "nothing was learned"


def walk(rank: int, port: int, folder: str) -> None:
    """Rank 0 leaves {word-setting: verdict} in `folder`/verdicts.json."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=WORLD, timeout=datetime.timedelta(seconds=60))
    verdicts = {}
    for param in build.model_cases():
        if param.marks:
            continue
        word, setting = param.values
        try:
            verdicts[param.id] = check(word, setting, rank)
        except Exception as error:  # the other process fails at the same place: go on with the next encoding
            verdicts[param.id] = f"{type(error).__name__}: {error}"
    try:  # could it fail? last, since it leaves a gradient that never arrived
        verdicts["broken"] = check(Unused, build.TEXT, rank)
    except RuntimeError as error:
        verdicts["broken"] = str(error)
    if rank == 0:
        (Path(folder) / "verdicts.json").write_text(json.dumps(verdicts))
    dist.destroy_process_group()
