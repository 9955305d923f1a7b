"""Running out of memory as something to react to: an error, not the end of the process."""

from __future__ import annotations

from pathlib import Path

import torch

RESERVE = 0.9  # of the memory that is free at the start


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory is too small, on CUDA or on the CPU."""
    words = ("out of memory", "can't allocate memory")
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(word in str(error) for word in words)


def limit_memory() -> None:
    """Make this process fail an allocation that the machine cannot hold, where Linux would grant it and kill later.

    Where /proc does not say how much is free, nothing is changed.
    """
    try:
        import resource

        free = min(_kilobytes(Path("/proc/meminfo"), "MemAvailable:"), _container())
        used = _kilobytes(Path("/proc/self/status"), "VmData:")
    except (ImportError, OSError, StopIteration):
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int((used + RESERVE * free) * 1024)
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _container() -> float:
    """Kilobytes that a container leaves, without bound where there is none (cgroup v2)."""
    folder = Path("/sys/fs/cgroup")
    try:
        most, now = ((folder / f"memory.{name}").read_text().strip() for name in ("max", "current"))
    except OSError:
        return float("inf")
    return float("inf") if most == "max" else (int(most) - int(now)) / 1024


def _kilobytes(path: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in path.read_text().splitlines() if line.startswith(name))
