"""A training in processes of its own, forked: they start at once, can be killed, and leave this process as it was."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from poslab.errors import Interrupted
from poslab.training.fit import fit
from poslab.training.interrupt import Interrupt

Hook = Callable[[Any], None]  # gets the Trainer after each batch


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def train(
    config: Mapping[str, Any], processes: int, log: Path, hook: Hook | None = None, seconds: float = 120
) -> list[int]:
    """Exit status of each process, negative for a signal; `hook` runs in rank 0 only. TimeoutError after `seconds`."""
    return wait(start(config, processes, log, hook), log, seconds)


def start(config: Mapping[str, Any], processes: int, log: Path, hook: Hook | None = None) -> list[int]:
    """Their process numbers, by rank. Several find each other as those of torchrun do."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "TORCHELASTIC_RUN_ID": log.stem}
    shared |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "GROUP_RANK": "0"}
    context = multiprocessing.get_context("fork")  # unlike os.fork it forgets what this process shares with its workers
    children = []
    for rank in range(processes):
        environment = shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}
        child = context.Process(target=_train, args=(dict(config), log, hook if rank == 0 else None, environment))
        child.start()
        children.append(child.pid)
    return children


def wait(children: Sequence[int], log: Path, seconds: float = 120) -> list[int]:
    codes: dict[int, int] = {}
    end = time.monotonic() + seconds
    while len(codes) < len(children):
        for child in set(children) - codes.keys():
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                codes[child] = os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            for child in set(children) - codes.keys():
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            raise TimeoutError(log.read_text())
        time.sleep(0.02)
    return [codes[child] for child in children]


def _train(config: dict[str, Any], log: Path, hook: Hook | None, environment: dict[str, str]) -> None:
    """Never returns."""
    code = 1
    os.environ.update(environment)
    try:
        sys.stdout = sys.stderr = log.open("a", buffering=1)
        if hook is not None:
            original = Interrupt.on_train_batch_end

            def hooked(self: Interrupt, trainer: Any, *rest: Any) -> None:
                hook(trainer)
                original(self, trainer, *rest)

            Interrupt.on_train_batch_end = hooked  # type: ignore[method-assign]
        fit(config)
        code = 0
    except Interrupted as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
