"""Any text set that the Hugging Face Hub, or a folder of parquet or text files, holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from ..optional import need
from .hub import check_column, load
from .packing import file_hash
from .splits import split_of
from .tokenizer import hashed
from .tokens import TokenText


class HubText(TokenText):
    """A set with a column of texts, each row a document, loaded by Hugging Face's `datasets`.

    Once its tokens are in the cache neither the set nor a network is needed again.

    Args:
        name: OWNER/NAME on the Hub, or a folder with parquet or text files.
        config: which part, where there are several.
        revision: a commit of the set, so that a study stays what it was; None: the newest when it was tokenised.
        train, val, test: the names of the splits. Where several are the same, a document belongs to one of
            them by the hash of its text: twins stay together.
        text: the name of the column. held_out: share of such a split that validates, and that tests.
        limit: training documents to read, of the first ones, and only those are downloaded; None: all.
        Others are those of `TokenText`. ValueError where it cannot be loaded or a column is not there.
    """

    def __init__(
        self,
        name: str,
        config: str | None = None,
        revision: str | None = None,
        train: str = "train",
        val: str = "train",
        test: str = "train",
        text: str = "text",
        held_out: float = 0.05,
        limit: int | None = None,
        **options: Any,
    ) -> None:
        if not 0 < held_out < 0.5:
            raise ValueError(f"data.held_out={held_out}: a share of the documents, more than 0 and less than 0.5.")
        splits = {"train": train, "val": val, "test": test}
        super().__init__(self.rows(name, config, revision, splits, text, held_out, limit), **options)

    def rows(self, *arguments: Any) -> HubDocuments:
        return HubDocuments(*arguments)


class HubDocuments:
    """The documents of a set, read from its rows."""

    def __init__(
        self,
        name: str,
        config: str | None,
        revision: str | None,
        splits: dict[str, str],
        text: str,
        held_out: float,
        limit: int | None,
    ) -> None:
        self.name, self.config, self.revision = name, config, revision
        self.splits, self.text, self.held_out, self.limit = splits, text, held_out, limit
        self.folder = Path(name).expanduser() if Path(name).expanduser().is_dir() else None
        self.title = (self.folder.resolve() if self.folder else Path(name)).name

    @property
    def size(self) -> int | None:
        return sum(rows.data.nbytes for rows in self._rows.values()) if self.limit is None else None

    def identity(self) -> str:
        where = self.name
        if self.folder is not None:
            files = sorted(path for path in self.folder.rglob("*") if path.is_file())
            below = [path.relative_to(self.folder) for path in files]
            visible = [path for path in below if not any(part.startswith(".") for part in path.parts)]
            where = hashed(*(f"{path.as_posix()} {file_hash(self.folder / path)}" for path in visible))
        more = (self.splits, self.text, self.held_out, self.limit)
        return hashed(type(self).__name__, where, self.config, self.revision, *more)

    def __iter__(self) -> Iterator[tuple[str, str, bytes]]:
        for split, rows in self._rows.items():
            documents = self.documents(self._texts(split, rows))
            if split == self.splits["train"]:
                documents = islice(documents, self.limit)
            roles = [role for role, source in self.splits.items() if source == split]
            for number, document in enumerate(documents):
                content = document.encode()
                yield f"{self.title}, {split}, document {number}", self._role(roles, content), content

    def documents(self, texts: Iterator[str]) -> Iterator[str]:
        """The documents that the rows of a split hold: a row is one."""
        return texts

    def _role(self, roles: list[str], content: bytes) -> str:
        if len(roles) == 1:
            return roles[0]
        role = split_of(content, self.held_out if "train" in roles else 0.5)
        return role if role in roles else "train"

    @cached_property
    def _rows(self) -> dict[str, Any]:
        need("datasets", f"data.name={self.name}", "text")
        return {split: self._load(split) for split in dict.fromkeys(self.splits.values())}

    def _load(self, split: str) -> Any:
        """The rows of a split: downloaded, or read as they come where few are asked for."""
        name, config, revision = self.name, self.config, self.revision
        more: dict[str, Any] = {"streaming": True} if self.limit is not None else {}
        if self.folder is not None:
            name, revision = str(self.folder), None
            if not (self.folder / "README.md").exists():  # which says what a config is
                config = None
            if not any(self.folder.rglob("*.parquet")) and any(self.folder.rglob("*.txt")):
                more["sample_by"] = "document"
        rows = load(name, config, revision, split, **more)
        if rows.column_names:  # some that are read as they come do not say
            check_column(rows, f"{self.title}, {split}", "text", self.text)
        return rows.select_columns([self.text])

    def _texts(self, split: str, rows: Any) -> Iterator[str]:
        for batch in rows.iter(batch_size=1000):
            for text in batch[self.text]:
                if not isinstance(text, str | None):
                    raise ValueError(f"{self.title}, {split}: column {self.text} holds no text, choose data.text.")
                yield text or ""


class WikiText(HubText):
    """WikiText, Merity et al. 2016: the lines of an article, which are rows of their own, joined to a document."""

    def rows(self, *arguments: Any) -> HubDocuments:
        return Articles(*arguments)


class Articles(HubDocuments):
    """Documents that begin at a heading of the first level, ` = Title = `, between blank lines."""

    heading = re.compile(r" = [^=].*[^=] = \n?")

    def documents(self, texts: Iterator[str]) -> Iterator[str]:
        article: list[str] = []
        for text in texts:
            for line in text.splitlines(keepends=True) or [" \n"]:
                if self.heading.fullmatch(line) and not "".join(article[-1:]).strip():
                    if "".join(article).strip():
                        yield "".join(article)
                    article = []
                article.append(line)
        if article:
            yield "".join(article)
