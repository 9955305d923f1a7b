"""What a named sweep holds already: which jobs are complete, and whether new ones belong to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..run import Run
from ..training.identity import identity, runs_in

WHOLE = ("model", "experiment")  # groups whose words set keys everywhere


class Study:
    """The runs in the directory of a sweep, and the keys that were ever swept there."""

    def __init__(self, directory: Path, swept: Sequence[str]) -> None:
        """`swept`: the keys that the new jobs sweep, as they are typed; a seed always may vary."""
        self.directory, self._record = directory, directory / "logs" / "swept.json"
        before = json.loads(self._record.read_text()) if self._record.exists() else []
        self.swept = sorted({*before, *map(dotted, swept), "seed"})
        self._held = [(run, identity(run.config), run.config["choices"]) for run in runs_in(directory)]

    def record(self) -> None:
        self._record.write_text(json.dumps(self.swept) + "\n")

    def complete(self, config: Mapping[str, Any]) -> Run | None:
        """The finished run that equals a job's configuration."""
        wanted = identity(config)
        equal = (run for run, held, _ in self._held if held == wanted)
        return next((run for run in equal if run.summary["status"] == "complete"), None)

    def check(self, config: Mapping[str, Any]) -> None:
        """UsageError, with the difference, where a job differs from a run here in more than what is swept."""
        here = identity(config)
        for run, there, choices in self._held:
            different = {key for key in here | there if here.get(key) != there.get(key)}
            words = [{dotted(group): word for group, word in each.items()} for each in (config["choices"], choices)]
            for key in self.swept:
                other_word = words[0].get(key) != words[1].get(key)
                if other_word and key in WHOLE:
                    different = set()
                elif other_word or key in different:
                    different = {name for name in different if name != key and not name.startswith(f"{key}.")}
            if different:
                rows = [f"  {key}: {there.get(key, 'none')} there, {here.get(key, 'none')} here" for key in different]
                raise UsageError(
                    f"sweep={self.directory.name} holds runs that differ from this in what is not swept, "
                    f"such as {run.directory}:\n" + "\n".join(sorted(rows)) + "\n"
                    "Set these keys as they were, sweep over both values (key=a,b), or choose another sweep=NAME."
                )


def dotted(key: str) -> str:
    """Where the keys of an override lie: pos.scaling for pos/scaling and for a group placed there by @."""
    return key.lstrip("+").partition("@")[2] or key.lstrip("+").replace("/", ".")
