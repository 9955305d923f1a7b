"""poslab: find out what a position encoding does to a Transformer.

run = poslab.load_run("runs/<run>")             # config, summary, data, load_model()
rows = poslab.results("reports/<report>")       # every number of a comparison, with types
"""

from typing import Any

__all__ = ["load_run", "results"]


def __getattr__(name: str) -> Any:
    # `import poslab` stays light: torch comes with the first run that is loaded, and never with a table
    if name == "load_run":
        from .run import load_run

        return load_run
    if name == "results":
        from .typed_results import results

        return results
    raise AttributeError(f"module 'poslab' has no attribute {name!r}")
