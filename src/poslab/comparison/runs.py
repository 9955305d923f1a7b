"""The runs that the command line names, and the report that is named after them."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from ..errors import UsageError
from ..run import Run, load_run


def words_of(runs: str | Sequence[str]) -> list[str]:
    return [runs] if isinstance(runs, str) else [str(word) for word in runs]


def find_runs(runs: str | Sequence[str]) -> tuple[list[Run], list[str]]:
    """Run directories, each once, and a note on what else a glob matched. UsageError where there is none."""
    found: dict[Path, Run] = {}
    notes = []
    for word in words_of(runs):
        path = Path(word).expanduser()
        if path.exists() or not glob.has_magic(word):
            if path.is_dir() and not (path / "config.yaml").exists() and list(path.glob("*/config.yaml")):
                raise UsageError(f"{word} is not a run but holds some: runs='{word.rstrip('/')}/*'.")
            found.setdefault(path.resolve(), load_run(path))
            continue
        matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]
        matches = [match for match in matches if match.name != "logs"]  # of the jobs of a sweep
        inside = [match for match in matches if (match / "config.yaml").exists()]
        if not inside:
            what = f"{len(matches)} paths, and none is a run directory" if matches else "nothing"
            raise UsageError(f"runs='{word}' matches {what}: give directories that hold a config.yaml.")
        if len(inside) < len(matches):
            notes.append(f"{len(matches) - len(inside)} of {len(matches)} matches of {word} are no runs, and ignored.")
        for match in inside:
            found.setdefault(match.resolve(), load_run(match))
    return list(found.values()), notes


def report_name(runs: str | Sequence[str]) -> str:
    """The same name for the same words: a run's own, `demo` for runs/sweeps/demo/*, `vit` for runs/*_vit_*."""
    names = [_slug(word) for word in words_of(runs)]
    name = "+".join(dict.fromkeys(names))
    if len(name) > 100:  # file systems end at 255 bytes
        name = f"{names[0][:60]}-and-{len(names) - 1}-more-{sha256(name.encode()).hexdigest()[:8]}"
    return name


def _slug(word: str) -> str:
    if not glob.has_magic(word) or Path(word).exists():
        return Path(word).expanduser().resolve().name
    for part in reversed(Path(word).parts):  # the last part that says something
        plain = re.sub(r"\[.*?\]|[^\w.=,+-]+", "-", part)
        plain = re.sub(r"[-_]*-[-_]*", "-", plain).strip("-_.")
        if plain:
            return plain
    return "all"
