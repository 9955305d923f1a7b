"""All benchmarks of a CPU, one after the other: python -m benchmarks. The GPU has a script of its own, gpu.py."""

from __future__ import annotations

from . import around, encodings, growth, roofline, train_step
from .report import parse, run

BENCHMARKS = {
    "train_step": train_step.rows,
    "encodings": encodings.rows,
    "roofline": roofline.rows,
    "around": around.rows,
    "growth": growth.rows,
}

if __name__ == "__main__":
    options = parse(None, __doc__.partition("\n")[0])
    found = [row for name, rows in BENCHMARKS.items() for row in run(name, rows, options)]
    promised = [row for row in found if row.met is not None]
    print(f"\n{sum(bool(row.met) for row in promised)} of {len(promised)} goals met; tables and JSON in {options.out}")
