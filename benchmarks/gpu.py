"""Everything that wants a GPU, in under ten minutes and one JSON: python -m benchmarks.gpu, or --small on a CPU.

A part that fails says why and the next one goes on; a part whose time is up says so and keeps what it has.
Correctness comes first: a fast kernel that is wrong is not fast.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from poslab.files import write
from poslab.training.utilisation import peak_flops

from . import gpu_attention, gpu_models
from .models import SMALL_GPT, SMALL_VIT, Images, Text
from .report import machine

TOTAL = 570.0  # seconds


@dataclass
class Setup:
    """What all parts share. `appetite`: samples a second that a model took, for the part that must feed it."""

    device: str
    gpt: Text
    vit: Images
    each_gpt: Text  # smaller, for a comparison of every encoding
    each_vit: Images
    lengths: tuple[int, ...]  # of attention alone
    repeats: int
    appetite: dict[str, float] = field(default_factory=dict)

    @property
    def compiled(self) -> bool:
        return self.device == "cuda"

    @property
    def peak(self) -> float | None:
        return peak_flops(torch.device("cuda"), torch.bfloat16) if self.device == "cuda" else None


LARGE = Setup(
    "cuda",
    gpt=Text(dim=768, heads=12, depth=12, context=1024, batch=32, vocab=50304),
    vit=Images(side=14, patch=16, batch=256, dim=768, heads=12, depth=12, classes=1000),
    each_gpt=Text(dim=768, heads=12, depth=4, context=1024, batch=8),
    each_vit=Images(side=14, patch=16, batch=64, dim=768, heads=12, depth=4),
    lengths=(2048, 8192),  # long enough for kernels to take longer than their launch
    repeats=20,
)
SMALL = Setup("cpu", SMALL_GPT, SMALL_VIT, SMALL_GPT, SMALL_VIT, (128,), 4)

Row = dict[str, Any]
PARTS: dict[str, tuple[float, Callable[[Setup], Iterator[Row]]]] = {
    "correct_models": (100, gpu_models.correctness),
    "correct_attention": (50, gpu_attention.correctness),
    "utilisation": (120, gpu_models.utilisation),
    "attention": (110, gpu_attention.speed),
    "input": (30, gpu_models.feeding),
    "encodings": (150, gpu_models.encodings),
}


def run(setup: Setup, path: Path) -> dict[str, Any]:
    """All parts in order; the JSON is written after each."""
    began = time.perf_counter()
    result: dict[str, Any] = {"benchmark": "gpu", "machine": machine(), "parts": {}}
    for name, (budget, part) in PARTS.items():
        left = TOTAL - (time.perf_counter() - began)
        result["parts"][name] = one(part, setup, min(budget, left))
        result["seconds"] = round(time.perf_counter() - began, 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, json.dumps(result, indent=1) + "\n")
    return result


def one(part: Callable[[Setup], Iterator[Row]], setup: Setup, budget: float) -> dict[str, Any]:
    """The rows of a part until its time is up, and the error that ended it."""
    began, rows, error, cut = time.perf_counter(), [], None, budget <= 0
    try:
        for row in part(setup) if not cut else ():
            rows.append(row)
            print(json.dumps(row), flush=True)
            cut = time.perf_counter() - began > budget
            if cut:
                break
    except Exception:
        error = traceback.format_exc()
        print(error, flush=True)
    return {"seconds": round(time.perf_counter() - began, 1), "error": error, "time_was_up": cut, "rows": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="tiny, on a CPU, to see that all of it works")
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks"), help="folder for gpu.json")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    run(SMALL if given.small else LARGE, given.out / "gpu.json")
