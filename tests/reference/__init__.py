"""Numbers that the encodings must reproduce, each computed twice from the papers' equations.

`positions.npz` holds the arrays of the first encodings, `positions.json` says for each of them what it is;
a family of encodings that came later has a pair of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

HERE = Path(__file__).parent


def arrays(family: str = "positions") -> dict[str, Tensor]:
    """All reference arrays of a family by name, float64 or int64."""
    with np.load(HERE / f"{family}.npz") as stored:
        return {name: torch.from_numpy(stored[name]) for name in stored.files}


def legend(family: str = "positions") -> dict[str, str]:
    """What each array is; a name that ends in * speaks for all that start so."""
    return json.loads((HERE / f"{family}.json").read_text())
