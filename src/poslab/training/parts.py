"""A checkpoint in parts, a folder to which every process wrote its own: looked at before torch unpickles it."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata

REST = "meta.pt"  # where Lightning puts what is neither a weight nor the optimiser's state
METADATA = ".metadata"  # where torch says which part holds what
NAMED = {
    "torch.distributed.checkpoint.metadata": (
        "Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "TensorProperties",
        "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING",
    ),
    "torch.distributed.checkpoint.filesystem": ("_StorageInfo",),
    "torch.serialization": ("_get_layout",),
    "torch": ("Size", "device", *(name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype))),
    "pathlib": ("PosixPath", "Path"),
    "pathlib._local": ("PosixPath", "Path"),  # Python 3.13
    "collections": ("OrderedDict",),
}  # fmt: skip


class _Plain(pickle.Unpickler):
    """Knows the classes that torch writes into `.metadata`, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        if name in NAMED.get(module, ()):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is not part of a checkpoint")


def read_rest(folder: Path) -> dict[str, Any]:
    """What is neither a weight nor the optimiser's state, of a checkpoint all parts of which are there and plain.

    Raises UnpicklingError where something in it would run when torch loads it, OSError or EOFError where a part
    is missing or cut short.
    """
    metadata: Metadata = _Plain(io.BytesIO((folder / METADATA).read_bytes())).load()
    for index, info in metadata.storage_data.items():
        part = folder / info.relative_path
        if part.stat().st_size < info.offset + info.length:
            raise EOFError(f"{part} is cut short")
        if isinstance(metadata.state_dict_metadata[index.fqn], BytesStorageMetadata):
            with part.open("rb") as file:
                file.seek(info.offset)
                torch.load(io.BytesIO(file.read(info.length)), map_location="cpu", weights_only=True)
    return torch.load(folder / REST, map_location="cpu", weights_only=True)


def read_header(path: Path) -> dict[str, Any]:
    """A checkpoint, one in parts without weights and optimiser. Raises as `read_rest` and torch.load do."""
    return read_rest(path) if path.is_dir() else torch.load(path, map_location="cpu", weights_only=True)
