"""Hydra's flags, with sentences instead of argparse's usage."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from hydra._internal.utils import get_args_parser

from ..errors import UsageError


def parse_flags(arguments: Sequence[str]) -> argparse.Namespace:
    """Flags and overrides, in any order."""
    for argument in arguments:
        key = argument.lstrip("-").partition("=")[0]
        if argument.startswith("-") and "=" in argument and key not in known_flags():
            raise UsageError(f"{argument}: a setting has no dash in front; write {argument.lstrip('-')}.")

    def complain(message: str) -> NoReturn:
        start, _, what = message.partition(": ")
        if start == "unrecognized arguments":
            flag = what.split()[0]
            raise UsageError(f"{flag}: there is no such flag; a setting is key=value, as {flag.lstrip('-')}=VALUE.")
        raise UsageError(f"{start.removeprefix('argument ')}: {what or 'see --help'}.")

    parser = get_args_parser()
    parser.error = complain  # type: ignore[method-assign]
    flags = parser.parse_intermixed_args(list(arguments))
    modes = {
        "--run": flags.run,
        "--cfg": flags.cfg,
        "--multirun": flags.multirun,
        "--info": flags.info,
        "--shell-completion": flags.shell_completion,
    }
    chosen = [flag for flag, value in modes.items() if value]
    if len(chosen) > 1:
        raise UsageError(f"{' '.join(chosen)}: these exclude each other; keep one.")
    if (flags.resolve or flags.package) and not (flags.cfg or flags.help):
        raise UsageError("--resolve and --package belong to --cfg: add --cfg job.")
    flags.runs = chosen in ([], ["--run"], ["--multirun"]) and not flags.help
    if flags.experimental_rerun is not None:
        raise UsageError("--experimental-rerun unpickles what it runs: go on with a run by resume=runs/<run>.")
    flags.passed_on = flags.shell_completion or flags.hydra_help
    return flags


def known_flags() -> set[str]:
    return {name.lstrip("-") for action in get_args_parser()._actions for name in action.option_strings}
