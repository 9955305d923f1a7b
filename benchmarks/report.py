"""The command line that all benchmarks share, and what they write: one JSON and one Markdown table each."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from poslab.files import write
from poslab.training.run_directory import environment

from .pairs import Comparison

PEERS = ("timm", "transformers", "x-transformers", "vit-pytorch", "torchvision")
HEAD = """\
| case | against | median | 90 % bounds | pairs | goal | met |
| :--- | :--- | ---: | :---: | ---: | ---: | :---: |"""


@dataclass(frozen=True)
class Options:
    """What can be asked of every benchmark."""

    pairs: int = 30
    small: bool = False  # tiny shapes, to see that all of it works
    compile: bool = False
    only: tuple[str, ...] = ()  # of the cases, those whose name or opponent contains one of these; none: all
    out: Path = Path("reports/benchmarks")

    def wants(self, *names: str) -> bool:
        return not self.only or any(text in name for text in self.only for name in names)


Rows = Callable[[Options], Iterable[Comparison]]


def parse(arguments: Sequence[str] | None, description: str) -> Options:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--pairs", type=int, default=30, help="timed pairs of a comparison")
    parser.add_argument("--small", action="store_true", help="tiny shapes, to see that it works")
    parser.add_argument("--compile", action="store_true", help="both through torch.compile")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="cases whose line has one of these")
    parser.add_argument("--out", type=Path, default=Options.out, help="folder for the results")
    given = parser.parse_args(arguments)
    return Options(**(vars(given) | {"only": tuple(given.only)}))


def run(name: str, rows: Rows, options: Options) -> list[Comparison]:
    """Measure, print each line as it comes, and keep all so far in `<name>.json` and `<name>.md`."""
    began, load = time.time(), os.getloadavg()
    facts = machine() | {"compiled": options.compile, "small": options.small, "load_before": load}
    path = options.out / f"{name}{'_compiled' if options.compile else ''}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found: list[Comparison] = []
    print(f"\n{name}\n\n{HEAD}", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a model has to say about such sizes is not the question
        for row in rows(options):
            found.append(replace(row, goal=None) if options.small else row)  # goals are about the real sizes
            print(line(found[-1]), flush=True)
            facts |= {"load_after": os.getloadavg(), "seconds": round(time.time() - began, 1)}
            result = {"benchmark": name, "machine": facts, "rows": [each.facts() for each in found]}
            write(path, json.dumps(result, indent=1) + "\n")
            write(path.with_suffix(".md"), "\n".join((HEAD, *map(line, found))) + "\n")
    return found


def main(name: str, rows: Rows) -> None:
    run(name, rows, parse(None, (sys.modules["__main__"].__doc__ or "").partition("\n")[0]))


def line(row: Comparison) -> str:
    """A row of the Markdown table."""
    unit = f" {row.unit}" if row.unit else ""
    bounds = f"{row.low:.3f} to {row.high:.3f}" if row.pairs else ""
    goal = "" if row.goal is None else f"{row.goal:g}{unit}"
    met = {None: "", True: "yes", False: "**no**"}[row.met]
    cells = [row.case, row.against, f"{row.median:.3f}{unit}", bounds, str(row.pairs or ""), goal, met]
    return f"| {' | '.join(cells)} |"


def machine() -> dict[str, Any]:
    """Where the numbers are from."""
    found = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    found["versions"] |= dict(filter(None, map(installed, PEERS)))
    variables = {name: os.environ[name] for name in ("GOMP_SPINCOUNT", "OMP_NUM_THREADS") if name in os.environ}
    return found | {
        "cores": len(os.sched_getaffinity(0)),
        "environment": variables,
        "system": platform.platform(),
        "date": time.strftime("%Y-%m-%d"),
    }


def installed(package: str) -> tuple[str, str] | None:
    try:
        return package, version(package)
    except PackageNotFoundError:
        return None
