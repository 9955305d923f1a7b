"""Your own text: the files of a folder, or one large file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .chunks import whole_character
from .packing import file_hash
from .splits import split_of
from .tokenizer import hashed
from .tokens import TokenText


class TextFiles(TokenText):
    """Every file is a document; 90 % of the files train, 5 % validate, 5 % test.

    A file belongs to a split by the hash of its path in the folder, so that it keeps its place when others come. One
    file alone is cut instead: its first 90 % train, the next 5 % validate, the rest tests.

    Args:
        folder: the folder, or the one file. pattern: which files in it, `**/*.txt` in all folders below.
        Others are those of `TokenText`. FileNotFoundError where there is none, ValueError where a split gets none.
    """

    def __init__(self, folder: str, pattern: str = "**/*.txt", **options: Any) -> None:
        super().__init__(Files(Path(folder).expanduser(), pattern), **options)


class Files:
    """The documents of a folder, in the order of their paths."""

    def __init__(self, root: Path, pattern: str) -> None:
        self.root, self.title = root, root.resolve().name
        try:
            self.paths = [root] if root.is_file() else sorted(path for path in root.glob(pattern) if path.is_file())
        except (ValueError, NotImplementedError) as error:
            raise ValueError(f"data.pattern={pattern} cannot be read ({error}): write it as **/*.txt.") from error
        if not self.paths:
            raise FileNotFoundError(
                f"data=text_files finds no {pattern} in {root}: put text files there, or choose data.folder=FOLDER "
                "(or FILE) and data.pattern, such as '**/*.md'."
            )
        self.splits = [split_of(self._name(path).encode()) for path in self.paths]
        for split in ("train", "val", "test") if len(self.paths) > 1 else ():
            if split not in self.splits:
                raise ValueError(
                    f"data=text_files: none of the {len(self.paths)} files in {root} falls into the {split} split. "
                    "Join them into one file, which is cut 90:5:5, or add more."
                )

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.paths)

    def identity(self) -> str:
        return hashed(*(f"{self._name(path)} {file_hash(path)}" for path in self.paths))

    def __iter__(self) -> Iterator[tuple[str, str, bytes]]:
        if len(self.paths) == 1:
            yield from parts(self.paths[0])
            return
        for path, split in zip(self.paths, self.splits):
            yield str(path), split, path.read_bytes()


def parts(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """One file as a document of each split."""
    text = path.read_bytes()
    places = [0, *(whole_character(text, int(len(text) * share)) for share in (0.9, 0.95)), len(text)]
    for number, split in enumerate(("train", "val", "test")):
        yield f"{path}, {split}", split, text[places[number] : places[number + 1]]
