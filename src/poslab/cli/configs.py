"""What `configs/` offers: groups, words, keys, comments; and Hydra's composition of them. No torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_search_path import SearchPathQuery
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ..errors import UsageError
from ..trust import CONFIGS
from .gate import check_hydra

LINE = re.compile(r"(?P<indent> *)(?P<key>\w+):(?: +(?P<value>[^#]*?))?(?: +# *(?P<comment>.*))?")


@dataclass(frozen=True)
class Composed:
    """A composed configuration: plain values, interpolations left as they are, and the word chosen for each group."""

    values: dict[str, Any]
    choices: dict[str, Any]  # group -> word, list of words, or None
    multirun: bool = False  # an experiment says that it is a sweep

    @cached_property
    def nodes(self) -> dict[str, Any]:
        """Dotted key -> value, of leaves and of the mappings above them."""
        return dict(walk(self.values))

    @cached_property
    def keys(self) -> list[str]:
        """What can be set: leaves and groups."""
        leaves = [key for key, value in self.nodes.items() if not isinstance(value, dict) and "._" not in key]
        return [*self.choices, *leaves]


class Configs:
    """The directory of configurations as `train.py` or `eval.py` (`name`) sees it."""

    def __init__(self, name: str, directory: Path | None = None, more: Sequence[str] = ()) -> None:
        """`more` are search paths of Hydra's, `file:///folder` or `pkg://package`, that come after ours."""
        self.name = name
        self.folders = [directory or CONFIGS, *(Path(path[7:]) for path in more if path.startswith("file://"))]
        if version.getbase() is None:
            version.setbase("1.3")
        search_path = create_config_search_path(str(self.folders[0]))
        for path in more:
            search_path.prepend(provider="command-line", path=path, anchor=SearchPathQuery(provider="schema"))
        self.loader = ConfigLoaderImpl(search_path)
        self._composed: dict[tuple[Any, ...], Composed] = {}
        self.parser = OverridesParser.create(config_loader=self.loader)
        entries = (yaml.safe_load(self.text(name)) or {}).get("defaults", [])
        # group -> word, of the groups that this program has; None: it may go without
        self.groups = {
            group: word
            for entry in entries
            if isinstance(entry, dict)
            for group, word in entry.items()
            if not group.startswith("override ")
        }

    def compose(self, overrides: Sequence[str] = (), resolve: bool = False) -> Composed:
        """Hydra's composition, once (it takes 0.2 s); UsageError with Hydra's own sentence where it refuses."""
        key = (*overrides, resolve)
        if key not in self._composed:
            self._composed[key] = self._compose(list(overrides), resolve)
        return self._composed[key]

    def _compose(self, overrides: list[str], resolve: bool) -> Composed:
        try:
            whole = self.loader.load_configuration(self.name, overrides, run_mode=RunMode.RUN)
            words = dict(whole.hydra.runtime.choices)
            ours = OmegaConf.masked_copy(whole, [key for key in whole if key != "hydra"])
            values = OmegaConf.to_container(ours, resolve=resolve)
        except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
            reason = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
            what = " ".join(overrides) or f"{self.name}.yaml"
            raise UsageError(f"{what}: {str(reason).strip().splitlines()[0].rstrip('.')}.") from error
        check_hydra(OmegaConf.to_container(whole.hydra, resolve=False))
        choices = {group: word for group, word in words.items() if not group.startswith("hydra/")}
        for override in self.parser.parse_overrides(overrides):  # Hydra forgets the words of a list
            if override.key_or_group in self.groups and isinstance(override.value(), list):
                choices[override.key_or_group] = override.value()
        return Composed(values, choices, whole.hydra.mode is RunMode.MULTIRUN)  # type: ignore[arg-type]

    def is_group(self, name: str) -> bool:
        return name in self.groups or self.loader.repository.group_exists(name)

    def options(self, group: str) -> list[str]:
        """The words of a group, which are the names of its files."""
        return self.loader.get_group_options(group)

    def summary(self, group: str, option: str) -> str:
        """The first line of comment in a word's file."""
        comments = (line[1:].strip() for line in self.text(f"{group}/{option}").splitlines() if line.startswith("#"))
        return next((comment for comment in comments if not comment.startswith("@package")), "")

    def text(self, path: str) -> str:
        """The file of a configuration, "" where it comes from somewhere else."""
        files = (folder / f"{path}.yaml" for folder in self.folders)
        return next((file.read_text() for file in files if file.exists()), "")

    def defaults(self, path: str) -> list[Any]:
        """The defaults list of a file."""
        return (yaml.safe_load(self.text(path)) or {}).get("defaults", [])

    def family(self, group: str, option: str, prefix: str | None = None) -> list[tuple[str, str]]:
        """The texts of a word's file, of those it inherits from and of its parts, ancestors first, each with
        the dotted key above its own keys.
        """
        text = self.text(f"{group}/{option}")
        prefix = package(text, group) if prefix is None else prefix
        found = []
        for name in self.defaults(f"{group}/{option}"):
            if isinstance(name, str) and name != "_self_":
                parent, _, below = name.partition("@")
                found += self.family(group, parent, f"{prefix}.{below}" if below else None)
        return [*found, (text, prefix)]

    def node(self, group: str, option: str) -> dict[str, Any]:
        """Dotted key -> value of a word's file and its ancestors, without a composition (which takes 0.2 s)."""
        found: dict[str, Any] = {}
        for text, prefix in self.family(group, option):
            found |= written_keys(text, prefix)
        return found

    def homes(self, nested: str, option: str, place: str = "") -> list[str]:
        """How to choose from a group below a word, such as pos/scaling: by its name, or with the part it stands in."""
        group, _, name = nested.rpartition("/")
        found = []
        for entry in self.defaults(f"{group}/{option}"):
            if isinstance(entry, dict) and name in entry:
                found.append(f"{nested}@{place}.{name}" if place else nested)
            elif isinstance(entry, str) and entry != "_self_":
                parent, _, below = entry.partition("@")
                found += self.homes(nested, parent, f"{place or group}.{below}" if below else place)
        return found

    def comments(self, choices: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """Dotted key -> its value as written and the comment behind it, in the files that the choices bring."""
        found = comments(self.text(self.name), "")
        for entry in self.defaults(self.name):
            if isinstance(entry, str):  # a file that is always there
                path, _, place = entry.partition("@")
                found |= comments(self.text(path), place)
        for group, chosen in choices.items():
            folder, _, place = group.partition("@")
            for option in chosen if isinstance(chosen, list) else [chosen or ""]:
                for text, prefix in self.family(folder, option, place or None):
                    found |= comments(text, prefix)
        return found

    def owners(self, key: str) -> list[str]:
        """The words that bring a key such as pos.theta, in the group that the key names."""
        group = key.partition(".")[0]
        if "." not in key or not self.is_group(group):
            return []
        return [option for option in self.options(group) if key in self.node(group, option)]


def walk(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of nested mappings, the mappings included."""
    for key, value in node.items():
        yield f"{prefix}{key}", value
        if isinstance(value, Mapping):
            yield from walk(value, f"{prefix}{key}.")


def package(text: str, group: str) -> str:
    """Where a file of a group puts its keys, "" for the top."""
    return "" if text.startswith("# @package _global_") else group.replace("/", ".")


def written_keys(text: str, prefix: str) -> dict[str, Any]:
    """Dotted key -> value of one file, as it is written there, below `prefix`."""
    node = {key: value for key, value in (yaml.safe_load(text) or {}).items() if key not in ("defaults", "hydra")}
    return dict(walk(node, f"{prefix}." if prefix else ""))


def comments(text: str, prefix: str) -> dict[str, tuple[str, str]]:
    """Dotted key -> value and comment, of the lines `key: value  # comment` of a file."""
    found, path = {}, []
    for line in text.splitlines():
        if match := LINE.fullmatch(line.rstrip()):
            path = [part for part in path if part[0] < len(match["indent"])] + [(len(match["indent"]), match["key"])]
            key = ".".join([prefix, *(name for _, name in path)]).lstrip(".")
            found[key] = (match["value"] or "", match["comment"] or "")
    return found


def documented_words(value: str, comment: str) -> list[str]:
    """The words that a comment offers: `a (why) | b (why)`, or `what it is: a | b`; [] where it does not.

    What a reader of the YAML is told is so what the command line accepts.
    """
    parts = comment.split(" | ")
    if value != first_word(parts[0]):
        parts[0] = parts[0].rpartition(": ")[2]
    words = [first_word(part) for part in parts]
    return words if len(words) > 1 and value in words else []


def first_word(text: str) -> str:
    match = re.match(r"[\w-]+", text.strip())
    return match[0] if match else ""
