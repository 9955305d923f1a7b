"""Make plain files of a run's checkpoints in parts: python -m poslab.consolidate runs/<run>."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from .errors import UsageError


def main(arguments: list[str] | None = None) -> int:
    """Say which files were made; 2 with a sentence where that cannot be."""
    parser = argparse.ArgumentParser("python -m poslab.consolidate", description=__doc__)
    parser.add_argument("run", type=Path, help="a run directory that was trained with hardware.sharded=true")
    try:
        made = consolidate(parser.parse_args(arguments).run)
    except UsageError as error:
        print(f"poslab: {error}", file=sys.stderr)
        return 2
    print("\n".join(str(path) for path in made))
    return 0


def consolidate(directory: Path) -> list[Path]:
    """Replace each checkpoint in parts by one file of the same name and content; returns them.

    It takes as much memory as the whole checkpoint. UsageError where there is none, or one is damaged.
    """
    from .run import load_run

    folders = [path for path in sorted((load_run(directory).directory / "checkpoints").glob("*.ckpt")) if path.is_dir()]
    if not folders:
        raise UsageError(f"{directory} has no checkpoint in parts: nothing is to be done.")
    for folder in folders:
        try:
            whole = join(folder)
        except (UnpicklingError, OSError, EOFError) as error:
            raise UsageError(f"{folder} is damaged or holds more than tensors and plain values: {error}.") from error
        import torch

        file, parts = folder.with_suffix(".tmp"), folder.with_suffix(".parts")
        torch.save(whole, file)
        os.replace(folder, parts)
        os.replace(file, folder)
        shutil.rmtree(parts)
    return folders


def join(folder: Path) -> dict[str, Any]:
    """The content of a checkpoint in parts, in the form of a plain one."""
    import torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    from .training.parts import read_rest

    rest = read_rest(folder)  # which also looks whether the parts may be read
    file = folder.with_suffix(".joining")
    dcp_to_torch_save(folder, file)
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
    finally:
        file.unlink()
    weights, optimizer = state["state_dict"], state["optimizer_0"]
    return rest | {"state_dict": weights, "optimizer_states": [numbered(optimizer, [*weights])]}


def numbered(state: dict[str, Any], order: list[str]) -> dict[str, Any]:
    """The state of an optimiser with a number for each parameter, in the `order` of the model, instead of its name."""
    number = {name: place for place, name in enumerate(name for name in order if name in state["state"])}
    groups = [group | {"params": sorted(map(number.__getitem__, group["params"]))} for group in state["param_groups"]]
    return {"state": {number[name]: kept for name, kept in state["state"].items()}, "param_groups": groups}


if __name__ == "__main__":
    sys.exit(main())
