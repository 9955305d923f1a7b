"""What surrounds the step: Lightning's loop, the batches, the command line, the start."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from . import batches, loops
from .pairs import Comparison, Contestant, difference, ratio
from .report import Options, main

ROOT = Path(__file__).parents[1]
TRAIN = str(ROOT / "train.py")
PATIENCE = 300.0  # seconds for a first step


def rows(options: Options) -> Iterator[Comparison]:
    pairs = options.pairs
    if options.wants("Lightning loop"):
        ours, bare = loops.contestants(steps=10 if options.small else 200)
        yield difference("Lightning loop, everything on, a step", "bare loop", ours, bare, pairs, "ms", 1.2, warm_up=1)
    if options.wants("image batches"):
        together, single = batches.images(batches=2 if options.small else 20)
        yield ratio("image batches", "DataLoader of items", together, single, pairs, 1 / 20, warm_up=1)
    if options.wants("text batches"):
        together, single = batches.text(batches=2 if options.small else 100)
        yield ratio("text batches", "a loop, after nanoGPT", together, single, pairs, 1 / 10, warm_up=1)
    lightning = command(0, "-c", "import lightning")
    if options.wants("--help"):
        yield ratio("--help", "import lightning", command(0, TRAIN, "--help"), lightning, pairs, 1 / 8, warm_up=1)
    if options.wants("an error"):
        yield ratio("an error", "import lightning", command(2, TRAIN, "pos=ropee"), lightning, pairs, 1 / 8, warm_up=1)
    if options.wants("first step"):
        yield difference("first step", "import lightning", first_step, lightning, pairs, "s", 3.0, warm_up=1)


def command(code: int, *arguments: str) -> Contestant:
    """A Python process that ends with an exit code; RuntimeError where it ends with another."""

    def run() -> float:
        began = time.perf_counter()
        done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        if done.returncode != code:
            raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode} and not {code}: {done.stderr}")
        return seconds

    return run


def first_step() -> float:
    """Seconds from the start of `python train.py` to the end of its first step, when it is in metrics.csv."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "said").open("w") as said:
        words = ["model=gpt", "steps=1", "evaluate=none", f"runs={folder}", f"reports={folder}"]
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, TRAIN, *words], cwd=ROOT, stdout=said, stderr=said)
        try:
            while not any(Path(folder).glob("*/metrics.csv")):
                if process.poll() is not None or time.perf_counter() - began > PATIENCE:
                    raise RuntimeError(f"No first step: {Path(said.name).read_text()}")
                time.sleep(0.01)
            return time.perf_counter() - began
        finally:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main("around", rows)
