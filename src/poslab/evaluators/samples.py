"""What every sample gave, beside results.csv: a paired difference needs more than two means."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np

from ..files import replacing
from ..results_file import Key
from .base import Measurement


class Samples:
    """One compressed file a measurement, `samples/<hash of its key>.npz`, of plain arrays."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, key: Key) -> Path:
        return self.directory / f"{sha256(chr(10).join(key).encode()).hexdigest()[:24]}.npz"

    def save(self, key: Key, measured: Measurement) -> None:
        """Write it whole beside the old one and move it over; sums are kept as float32."""
        path = self.path(key)
        self.directory.mkdir(parents=True, exist_ok=True)
        totals = {f"total/{name}": total.astype(np.float32) for name, total in measured.totals.items()}
        own = {f"weight/{name}": weight for name, weight in measured.own_weights.items()}
        with replacing(path) as part, part.open("wb") as file:
            np.savez_compressed(file, weights=measured.weights, clusters=measured.clusters, **totals, **own)

    def load(self, key: Key) -> Measurement | None:
        """None where it was never kept, or is damaged."""
        try:
            with np.load(self.path(key), allow_pickle=False) as file:
                named = {
                    prefix: {name[len(prefix) :]: file[name] for name in file.files if name.startswith(prefix)}
                    for prefix in ("total/", "weight/")
                }
                return Measurement(named["total/"], file["weights"], file["clusters"], named["weight/"])
        except (OSError, ValueError, KeyError):
            return None

    def __contains__(self, key: Key) -> bool:
        return self.path(key).exists()
