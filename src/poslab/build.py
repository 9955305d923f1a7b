"""From a plain configuration to data and models. The only place where names become objects."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from torch import nn

from .errors import UsageError
from .positions import PositionEncoding, Spec, build_layers, declared_axes
from .trust import home


def instantiate(node: Mapping[str, Any], **more: Any) -> Any:
    """The object that a node's `_target_` names, called with its other keys, or a partial of it.

    Only classes that configs/ lists, and those of trusted packages, are accepted: a configuration from a
    stranger cannot run code.
    Nodes inside a node are instantiated first.
    """
    target = locate(node["_target_"])
    keywords = {key: inner(value) for key, value in node.items() if key not in ("_target_", "_partial_")} | more
    return partial(target, **keywords) if node.get("_partial_") else target(**keywords)


def inner(value: Any) -> Any:
    """A value of a node: another node, a mapping of nodes, or plain."""
    if not isinstance(value, Mapping):
        return value
    return instantiate(value) if "_target_" in value else {key: inner(part) for key, part in value.items()}


def locate(path: str) -> Callable[..., Any]:
    """The class behind a dotted path; UsageError unless configs/ lists it or its package is trusted."""
    module_name, _, name = path.rpartition(".")
    package = home(path)
    if package is None:
        top = path.partition(".")[0]
        fix = "" if top == "poslab" else f" If you trust its code, add trust=[{top}] to the command line."
        raise UsageError(f"_target_: {path} is none of the classes that configs/ lists: it is not called.{fix}")
    try:
        found = getattr(import_module(module_name), name, None)
    except ImportError as error:
        raise UsageError(f"_target_: {path} cannot be imported: {error}. Install it, or set PYTHONPATH.") from error
    if not isinstance(found, type) or not f"{found.__module__}.".startswith(f"{package}."):
        raise UsageError(f"_target_: {path} is not a class of {package}, and nothing else is ever called.")
    return found


def build_encodings(node: Mapping[str, Any], spec: Spec) -> list[PositionEncoding] | None:
    """The distinct encodings of all layers that a `pos` node makes; None where it is not for such a model."""
    factory = instantiate(node)
    axes = declared_axes(factory)
    if axes not in (None, len(spec.extent)):
        return None
    try:
        with warnings.catch_warnings():  # of extents, which are examples here
            warnings.simplefilter("ignore")
            return list(dict.fromkeys(build_layers(factory, spec)))
    except ValueError:
        if axes is None:
            return None
        raise


def build_data(config: Mapping[str, Any]) -> Any:
    """The data set of a configuration."""
    return instantiate(config["data"])


def build_model(config: Mapping[str, Any], data: Any) -> nn.Module:
    """The untrained model of a configuration, fitted to the shapes of its data."""
    model = instantiate(config["model"])
    kind = model.func.reads
    if data.kind != kind:
        raise UsageError(
            f"model={config['choices']['model']} reads {kind}s, data={config['choices']['data']} has {data.kind}s: "
            f"choose data for {kind}s."
        )
    shapes: dict[str, Any]
    if kind == "text":
        shapes = {"vocab": data.vocab, "context": data.context}
    else:
        shapes = {"image_size": data.size, "channels": data.channels, "classes": data.classes}
    return model(pos=instantiate(config["pos"]), **shapes)
