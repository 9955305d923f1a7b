"""poslab: find out what a position encoding does to a Transformer."""

from typing import Any

__all__ = ["load_run"]


def __getattr__(name: str) -> Any:
    # `import poslab` stays light: torch comes with the first run that is loaded
    if name == "load_run":
        from .run import load_run

        return load_run
    raise AttributeError(f"module 'poslab' has no attribute {name!r}")
