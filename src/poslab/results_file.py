"""results.csv: one row a number, kept between calls."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from .files import replacing

COLUMNS = (
    "run", "checkpoint_sha", "model", "pos", "variant", "seed", "data", "train_size", "evaluator", "protocol",
    "size", "ratio", "metric", "value", "ci_low", "ci_high", "n", "status",
)  # fmt: skip
KEY = ("checkpoint_sha", "evaluator", "protocol", "size", "variant")

Row = dict[str, str]
Key = tuple[str, ...]


def key(row: Row) -> Key:
    """What makes a row the answer to a question. The hash of the data is the end of `protocol`.

    It is there, and not in `data`, so that a table can be filtered by `data == "mnist5k"`.
    """
    return tuple(row[column] for column in KEY)


def is_final(row: Row) -> bool:
    """Whether asking again would give the same: numbers and `not defined` stay, failures are tried again."""
    return row["status"] == "ok" or row["status"].startswith("not defined")


class Results:
    """The rows of one report. A measurement that works is one row a metric; one that does not is one row.

    The file is written whole beside the old one and moved over it: an interrupted evaluation keeps
    all measurements that were finished, and no reader ever sees half a row.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[Row]:
        """All rows. ValueError where the file has other columns."""
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise ValueError(f"{self.path} has other columns than poslab writes: move it away, or name a report.")
            # a row that another program cut short is measured again
            return [row for row in reader if None not in row and None not in row.values()]

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows; those of the same key that were there before give way."""
        new = list(rows)
        replaced = {key(row) for row in new}
        # read again each time: what another evaluation into this report has finished meanwhile stays
        kept = [row for row in self.read() if key(row) not in replaced]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(kept + new)

    def final(self) -> tuple[set[Key], set[Key]]:
        """Keys that need no second measurement, and those of them that have numbers."""
        rows = [row for row in self.read() if is_final(row)]
        return {key(row) for row in rows}, {key(row) for row in rows if row["status"] == "ok"}
