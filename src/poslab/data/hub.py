"""Any image set that the Hugging Face Hub, or a folder of parquet files, holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..optional import need
from .decoded import DecodedData


class HubImages(DecodedData):
    """A set with a column of images and a column of labels, loaded by Hugging Face's `datasets`.

    It is downloaded once; afterwards it is read from the cache, with HF_HUB_OFFLINE=1 without asking anybody.

    Args:
        name: OWNER/NAME on the Hub, or a folder with parquet files. config: which part, where there are several.
        revision: a commit of the set, so that a study stays what it was; None: the newest.
        train, test: the names of the splits. image, label: the names of the columns.
        Others are those of `DecodedData`. ValueError where it cannot be loaded or a column is not there.
    """

    def __init__(
        self,
        name: str,
        config: str | None = None,
        revision: str | None = None,
        train: str = "train",
        test: str = "test",
        image: str = "image",
        label: str = "label",
        **options: Any,
    ) -> None:
        need("datasets", "data=hub")
        splits = [
            Rows(load(name, config, revision, split), f"{name}, {split}", image, label) for split in (train, test)
        ]
        super().__init__(*splits, splits[0].classes, **options)


def load(name: str, config: str | None, revision: str | None, split: str, **options: Any) -> Any:
    """A split of a set, by `datasets.load_dataset` and its `options`; ValueError with what to do where it fails."""
    import datasets

    try:
        return datasets.load_dataset(name, config, split=split, revision=revision, **options)
    except (OSError, ValueError, RuntimeError) as error:  # what it raises has no common class
        reason = str(error).strip().splitlines()[0].rstrip(".")
        remedy = "is there parquet, or text, of that split in that folder?"
        if not Path(name).exists():
            remedy = (
                f"a name is OWNER/NAME as on huggingface.co/datasets, whose page says how large it is and whether it "
                f"asks for `hf auth login`. Without a network, `hf download --repo-type dataset {name} --local-dir "
                "FOLDER` where there is one, and data.name=FOLDER here."
            )
        raise ValueError(f"The datasets package cannot load split {split} of {name} ({reason}): {remedy}") from error


def check_column(rows: Any, title: str, key: str, column: str) -> None:
    """ValueError where the rows of a split have no `column`, which is what data.`key` names."""
    if column not in rows.column_names:
        raise ValueError(f"{title} has no column {column}: choose data.{key} from {', '.join(rows.column_names)}.")


class Rows:
    """The rows of a split. Images stay encoded until they are asked for."""

    def __init__(self, rows: Any, title: str, image: str, label: str) -> None:
        import datasets

        for key, column in (("image", image), ("label", label)):
            check_column(rows, title, key, column)
        kind = rows.features[label]
        self.title, self.column = title, image
        self.labels = np.asarray(rows.with_format("numpy")[label][:])
        if not np.issubdtype(self.labels.dtype, np.integer):
            raise ValueError(f"{title}: the labels in column {label} are no integers, choose another with data.label.")
        self.classes = kind.num_classes if isinstance(kind, datasets.ClassLabel) else int(self.labels.max()) + 1
        self.rows = rows.select_columns([image]).cast_column(image, datasets.Image(decode=False))

    def name(self, number: int) -> str:
        return f"{self.title}, row {number}"

    def read(self, number: int) -> bytes:
        image = self.rows[number][self.column]
        return image["bytes"] if image["bytes"] is not None else Path(image["path"]).read_bytes()
