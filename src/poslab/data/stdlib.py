"""The source code of Python's standard library: megabytes of real text on every machine."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from .splits import split_of
from .text import ByteText

EXCLUDED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


class Stdlib(ByteText):
    """Bytes of the library's `.py` files outside tests; 90 % of the files train, 5 % validate, 5 % test.

    A file belongs to a split by the hash of its path, so no file is in two and a file keeps its
    place between Python versions. What they contain differs between versions: `fingerprint` tells.
    Raises FileNotFoundError where this Python comes without its source.
    """

    def __init__(self, context: int = 64) -> None:
        root = Path(sysconfig.get_paths()["stdlib"])
        documents: dict[str, list[bytes]] = {"train": [], "val": [], "test": []}
        for path in sorted(root.rglob("*.py")):
            name = path.relative_to(root)
            if EXCLUDED.isdisjoint(name.parts) and path.is_file():
                content = path.read_bytes().replace(b"\r\n", b"\n")
                if content:
                    documents[split_of(name.as_posix().encode())].append(content)
        if sum(map(len, documents["train"])) < 1_000_000:
            raise FileNotFoundError(
                f"data=stdlib reads the standard library's source, and {root} holds less than a megabyte of it: "
                "install a full Python (Debian: apt-get install libpython3-stdlib)."
            )
        super().__init__(documents, context)
