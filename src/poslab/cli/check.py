"""The command line, checked before anything heavy is imported: each mistake is one sentence with its fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from hydra.core.override_parser.types import Glob, Override, Sweep, ValueType
from hydra.errors import HydraException

from ..errors import UsageError
from .configs import Composed, Configs, documented_words
from .kinds import complaint, kind_of, shown

LISTS = ("evaluate", "logger")  # groups of which several words can be taken together


@dataclass(frozen=True)
class Setting:
    """One override: as it was typed, what Hydra's parser read, and all values that it sweeps over."""

    typed: str
    parsed: Override
    values: list[Any]

    @property
    def key(self) -> str:
        return self.parsed.key_or_group

    @property
    def home(self) -> str:
        """A group and, where it stands below a part of a composed word, its place."""
        return self.key if self.parsed.package is None else f"{self.key}@{self.parsed.package}"

    @property
    def swept(self) -> bool:
        return self.parsed.is_sweep_override()

    @property
    def plus(self) -> bool:
        return self.parsed.is_add()

    @property
    def of_hydra(self) -> bool:
        return self.parsed.is_hydra_override()


@dataclass(frozen=True)
class Checked:
    """A command line in which nothing is wrong that can be seen without importing a class."""

    composed: list[Composed]  # the first job's groups, then one for each other word of a swept group
    words: dict[str, list[str]]  # group -> its words, where the command line chooses


def check(configs: Configs, overrides: Sequence[str], multirun: bool = False) -> Checked:
    """UsageError about the first mistake in `overrides`."""
    settings = [read(configs, override) for override in overrides]
    multirun = multirun or any(setting.key == "hydra.mode" and "MULTIRUN" in setting.values for setting in settings)
    ours = [setting for setting in settings if not setting.of_hydra]
    groups = [setting for setting in ours if configs.is_group(setting.key) and not setting.plus]
    values = [setting for setting in ours if setting not in groups]
    adaptive = any(setting.key == "hydra/sweeper" for setting in settings)

    for setting in groups:
        check_group(configs, setting, groups)
        check_nested(configs, setting, groups)
    first = {setting.home: f"{setting.home}={shown(setting.values[0])}" for setting in groups}
    bases = [configs.compose([*first.values()])]
    for setting in values:
        check_value(configs, setting, bases[0])
    for setting in ours:
        check_sweep(setting, bases[0], multirun, adaptive)
    for setting in groups:
        for word in setting.values[1:] if matters(setting.key, values) else []:
            bases.append(configs.compose([*(first | {setting.home: f"{setting.home}={shown(word)}"}).values()]))
            for value in values:
                check_value(configs, value, bases[-1])
    if any(setting.of_hydra or setting.plus or "${" in setting.typed for setting in settings):
        alone = [setting.typed for setting in settings if not setting.swept and setting.key not in first]
        configs.compose([*first.values(), *alone], resolve=True)
    return Checked(bases, {setting.key: setting.values for setting in groups})


def read(configs: Configs, typed: str) -> Setting:
    """Parse one override."""
    name, equals, value = typed.partition("=")
    if typed.startswith("~"):
        raise UsageError(f"{typed}: nothing can be deleted; a key that may be off takes null, such as optim.clip=null.")
    if typed.startswith("++"):
        raise UsageError(f"{typed}: write {typed[2:]}, or one plus for another argument of lightning.Trainer.")
    if not equals:
        homes = [group for group in configs.groups if typed in configs.options(group)]
        fix = f"did you mean {homes[0]}={name}?" if homes else "see --help for the keys."
        if typed in configs.groups:
            fix = f"choose {typed}={'|'.join(configs.options(typed))}."
        raise UsageError(f"{typed}: this is not key=value; {fix}")
    try:
        parsed = configs.parser.parse_overrides([typed])[0]
        if parsed.value_type is ValueType.GLOB_CHOICE_SWEEP and not configs.is_group(parsed.key_or_group):
            raise UsageError(f"{typed}: glob(...) picks files of a group, such as pos; list values as {name}=a,b.")
        values = list(enumerate_values(parsed))
        if any(isinstance(value, Sweep) for value in values):
            raise ValueError("a sweep inside a sweep")
    except (HydraException, ValueError) as error:
        raise UsageError(
            f"{typed}: '{value}' cannot be read; close its brackets and quotes, or quote it twice: {name}=\"'...'\"."
        ) from error
    if not values:
        choices = ", ".join(configs.options(parsed.key_or_group)) if configs.is_group(parsed.key_or_group) else "values"
        raise UsageError(f"{typed}: nothing matches; choose from {choices}.")
    return Setting(typed, parsed, values)


def enumerate_values(parsed: Override) -> Iterable[Any]:
    """The plain values of an override, one unless it is a sweep."""
    if parsed.value_type is ValueType.INTERVAL_SWEEP:
        return [parsed.value().start, parsed.value().end]  # type: ignore[union-attr]
    if isinstance(parsed.value(), (Sweep, Glob)):
        return [Override._convert_value(value) for value in parsed.sweep_iterator()]
    return [parsed.value()]


def check_group(configs: Configs, setting: Setting, groups: list[Setting]) -> None:
    """The group is one of this program's, chosen once, and every word is a file in it."""
    key, typed, options = setting.key, setting.typed, configs.options(setting.key)
    if "/" not in key and key not in configs.groups:
        raise UsageError(f"{typed}: {unknown(configs, setting, configs.compose())}")
    if setting.parsed.package is not None and "/" not in key:
        raise UsageError(
            f"{typed}: a group stays where it is; write {typed.replace(f'@{setting.parsed.package}', '')}."
        )
    if next(other for other in groups if other.home == setting.home) is not setting:
        raise UsageError(f"{typed}: {key} is chosen twice; {key}=a,b with -m runs both.")
    listed = ", ".join(options)
    if key not in LISTS and (lists := [value for value in setting.values if isinstance(value, list)]):
        raise UsageError(f"{typed}: {key} takes one word, not {shown(lists[0])}; choose one of {listed}.")
    for word in (word for value in setting.values for word in (value if isinstance(value, list) else [value])):
        if word == "":
            raise UsageError(f"{typed}: a value is missing; choose one of {listed}.")
        if word not in options:
            close = near(shown(word), options)
            hint = f"the nearest is {key}={close[0]}, and all are" if close else "choose one of"
            hint = f"{hint} {listed}" if options else "that folder is empty so far"
            raise UsageError(f"{typed}: there is no '{shown(word)}' in configs/{key}; {hint}.")


def check_nested(configs: Configs, setting: Setting, groups: list[Setting]) -> None:
    """A group below another one's words, such as pos/scaling, is one that the chosen words have."""
    group, _, name = setting.key.rpartition("/")
    if not group:
        return
    above = [other for other in groups if other.key == group]
    plain = [f"{other.key}={shown(other.values[0])}" for other in groups if "/" not in other.key]
    words = above[0].values if above else [configs.compose(plain).choices.get(group)]
    for word in words:
        homes = configs.homes(setting.key, str(word))
        if setting.home not in homes:
            having = [option for option in configs.options(group) if setting.key in configs.homes(setting.key, option)]
            value = setting.typed.partition("=")[2]
            fix = (
                f"write {' or '.join(f'{home}={value}' for home in homes)}"
                if homes
                else f"it belongs to {group}={' | '.join(having)}"
            )
            raise UsageError(f"{setting.typed}: {group}={word} has no {name} there; {fix}.")


def check_value(configs: Configs, setting: Setting, base: Composed) -> None:
    """The key exists, and each value is what its default says."""
    key, exists = setting.key, setting.key in base.nodes or setting.key in base.choices
    bare = setting.typed.removeprefix("+")
    if setting.plus and exists:
        raise UsageError(f"{setting.typed}: {key} is there already; write {bare}, without the plus.")
    if setting.plus and key.startswith("hardware."):
        return  # any argument of lightning.Trainer
    group = key.replace(".", "/")
    if "." in key and configs.is_group(group):
        raise UsageError(
            f"{setting.typed}: {key} is chosen from configs/{group}; write {group}={bare.partition('=')[2]}."
        )
    if not exists or setting.parsed.package is not None:
        raise UsageError(f"{setting.typed}: {unknown(configs, setting, base)}")
    default = base.nodes[key]
    if isinstance(default, dict):
        inner = next(name for name in base.nodes if name.startswith(f"{key}.") and "._" not in name)
        raise UsageError(f"{setting.typed}: {key} holds several keys; set them one by one, such as {inner}=VALUE.")
    words = documented_words(*configs.comments(base.choices).get(key, ("", ""))) if isinstance(default, str) else []
    for value in setting.values if setting.parsed.value_type is not ValueType.INTERVAL_SWEEP else []:
        if key == "hardware.devices" and value == 0:
            raise UsageError(f"{setting.typed}: a run takes one device or more, or auto.")
        if wrong := complaint(key, value, default, words):
            listed = shown(setting.values)
            if setting.swept and kind_of(key, default).accepts(setting.values):
                wrong += f"; a list has brackets: {key}={listed}"
            raise UsageError(f"{setting.typed}: {wrong}.")


def check_sweep(setting: Setting, base: Composed, multirun: bool, adaptive: bool) -> None:
    """Sweeps are asked for, and of a sort that can be counted."""
    typed, key = setting.typed, setting.key
    if setting.swept and not multirun:
        lists = key in base.nodes and kind_of(key, base.nodes[key]).accepts(setting.values)
        fix = f", or write {key}={shown(setting.values)} for one list" if lists else ""
        raise UsageError(f"{typed}: several values are a sweep; add -m to run one job for each{fix}.")
    if setting.parsed.value_type is ValueType.INTERVAL_SWEEP and not adaptive:
        raise UsageError(f"{typed}: an interval is searched, not listed: add -m hydra/sweeper=search, or write a,b,c.")


def matters(group: str, values: list[Setting]) -> bool:
    """Whether another word of a group can change which keys exist: a model and an experiment set everything."""
    return group in ("model", "experiment") or any(value.key.startswith(group.replace("/", ".")) for value in values)


def unknown(configs: Configs, setting: Setting, base: Composed) -> str:
    """The rest of a sentence about a key that does not exist: who has it, what is near, or what there is."""
    key, value = setting.key, setting.typed.partition("=")[2]
    head, _, last = key.partition(".")
    if inner := [name for name in base.keys if re.fullmatch(rf"{head}\.parts\..*\.{re.escape(last)}", name)]:
        return f"{head}={base.choices[head]} has it in its parts; write {' or '.join(f'{k}={value}' for k in inner)}."
    if (owners := configs.owners(key)) and (group := key.partition(".")[0]) in base.choices:
        return f"{group}={shown(base.choices[group])} has no key '{key}'; it belongs to {group}={' | '.join(owners)}."
    folder = key.rpartition(".")[0].replace(".", "/")
    if "/" in folder and configs.is_group(folder):
        having = [option for option in configs.options(folder) if key in configs.node(folder, option)]
        if having:
            chosen = base.choices.get(folder)
            return f"{folder}={chosen} has no key '{key}'; it belongs to {folder}={' | '.join(having)}."
    close = [f"{name}={value}" for name in near(key, base.keys)]
    if key.startswith("hardware."):
        close.append(f"+{key}={value} (any argument of lightning.Trainer, with a plus)")
    if close:
        return f"there is no key '{key}'; did you mean {' or '.join(close)}?"
    return f"there is no key '{key}'; there are {', '.join(name for name in base.values if name[0] != '_')}."


def near(name: str, known: Iterable[str]) -> list[str]:
    """At most three of `known` that look like `name`, as a whole or in their last part; the best first."""
    name = name.lower().replace("/", ".")

    def score(candidate: str) -> float:
        (one, _, mine), (other, _, its) = name.rpartition("."), candidate.rpartition(".")
        last = SequenceMatcher(None, mine, its).ratio()
        if its.endswith(f"_{mine}"):
            last = 1.0  # batch_size, of global_batch_size
        return last if one == other else max(SequenceMatcher(None, name, candidate).ratio(), 0.95 * last)

    ranked = sorted(((score(candidate), candidate) for candidate in known), key=lambda pair: (-pair[0], pair[1]))
    return [candidate for value, candidate in ranked if value >= max(0.65, ranked[0][0] - 0.05)][:3]


def missing(configs: Configs, checked: Checked, overrides: Sequence[str]) -> None:
    """UsageError where a key has no default and was not set."""
    given = {override.partition("=")[0] for override in overrides}
    for key, value in checked.composed[0].nodes.items():
        if value == "???" and key not in given:
            example = kind_of(key, value).example
            raise UsageError(f"{key} is missing: python {configs.name}.py {' '.join([*overrides, f'{key}={example}'])}")
