"""The numbers of a report for a script or a notebook: rows with types. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .errors import UsageError
from .results_file import Results
from .results_file import Row as Cells

__all__ = ["Row", "Rows", "results", "typed"]


@dataclass(frozen=True)
class Row:
    """One number of one run, or the reason why there is none: a line of results.csv, in the order of its columns."""

    run: str  # name of the run directory
    checkpoint_sha: str  # of the weights that were measured
    model: str  # word of configs/model, as pos and data are words of theirs
    pos: str
    variant: str  # how the weights were read: `scaling=yarn`; empty as they were trained
    seed: int | None
    data: str
    train_size: str  # as `size`
    evaluator: str  # word of configs/evaluate
    protocol: str  # all that decides the number beside model and size; rows of two protocols are two questions
    size: str  # tokens, `64`; pixels, `28` (a square) or `28x56` (rows x columns); what the evaluator is asked at
    ratio: float | None  # size over train_size, along one axis
    metric: str  # `accuracy`: a fraction; `loss`: nats; `loss@4-7`: a part of it, by position; empty where it failed
    value: float | None  # in the unit of the metric, never in percent; None unless status is ok
    ci_low: float | None  # interval over the samples of this run, in the unit of the value; None where it has none
    ci_high: float | None
    n: int | None  # samples, or windows of a text
    status: str  # `ok`, `not defined: <why>`, `out of memory`, `failed: <why>`


class Rows(list[Row]):
    """A list of rows, with a filter. `pandas.DataFrame(rows)` makes a frame of it."""

    def where(self, **wanted: Any) -> Rows:
        """Rows whose columns hold what is wanted: a value, or one of a list of values.

            rows.where(pos=["rope", "alibi"], metric="loss", size=64, status="ok")

        A size is a word, and may be given as a number. UsageError for a column that there is not.
        """
        columns = [field.name for field in fields(Row)]
        if unknown := [name for name in wanted if name not in columns]:
            raise UsageError(f"results.csv has no column {unknown[0]!r}; there are {', '.join(columns)}.")
        choices = {name: each if isinstance(each, (list, tuple, set)) else [each] for name, each in wanted.items()}

        def holds(row: Row, name: str) -> bool:
            cell = getattr(row, name)
            return any(cell == choice or (isinstance(cell, str) and cell == str(choice)) for choice in choices[name])

        return Rows(row for row in self if all(holds(row, name) for name in choices))


def results(path: str | Path) -> Rows:
    """Every measurement of a report, in the order of its file.

        rows = poslab.results("reports/demo")
        alibi = [row.value for row in rows.where(pos="alibi", metric="loss", size=256)]     # one a seed
        frame = pandas.DataFrame(rows)                                                      # poslab needs no pandas

    Args:
        path: the folder of a report, or the results.csv in it.

    Returns rows of the columns of `Row`, with what is not defined or failed among them: `where(status="ok")`
    leaves numbers. Fractions are fractions, not percents; losses are in nats; the unit of every metric is in
    the report beside its table. A file may hold rows of several protocols: filter by one before you average.
    Raises UsageError where there is no results.csv of poslab.
    """
    path = Path(path).expanduser()
    file = path / "results.csv" if path.is_dir() else path
    if not file.exists():
        raise UsageError(_missing(path))
    try:
        return Rows(typed(cells) for cells in Results(file).read())
    except ValueError as error:  # other columns, no text, a word where a number belongs
        raise UsageError(
            f"{file} is not a results.csv as poslab writes it: give the folder of a report, as reports/demo, "
            "or the results.csv in it."
        ) from error


def typed(cells: Cells) -> Row:
    """A line of the file with numbers where its columns hold numbers. ValueError for a word in their place."""
    kinds: dict[str, Callable[[str], Any]] = {"seed": int, "n": int} | dict.fromkeys(("ratio", "value"), float)
    kinds |= dict.fromkeys(("ci_low", "ci_high"), _limit)

    def read(column: str, text: str) -> Any:
        if column not in kinds:
            return text
        return None if text in ("", "None") else kinds[column](text)

    return Row(**{column: read(column, text) for column, text in cells.items()})


def _limit(text: str) -> float | None:
    """An end of an interval; `nan` is how the file says that a number has none."""
    limit = float(text)
    return None if math.isnan(limit) else limit


def _missing(path: Path) -> str:
    """Why there is no results.csv, and what makes one."""
    if not path.is_dir():
        return f"{path} does not exist: give the folder of a report, as reports/demo, or the results.csv in it."
    if (path / "config.yaml").exists():
        return f"{path} is a run, and no report yet: python eval.py runs={path} makes one."
    reports = sorted(each.parent.name for each in path.glob("*/results.csv"))
    if reports:
        return f"{path} holds reports and is none: give one of them, {path / reports[0]} for instance."
    return f"{path} has no results.csv: python eval.py runs='runs/sweeps/demo/*' makes reports/demo, for instance."
