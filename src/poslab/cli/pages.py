"""What can be chosen, as tables of words and the first line of their files."""

from __future__ import annotations

from collections.abc import Sequence

from .configs import Composed, Configs
from .kinds import shown

EXAMPLES = {
    "train": """\
  python train.py model=vit pos=rope2d
  python train.py model=gpt pos=rope pos.theta=50000 model.depth=8 steps=4000
  python train.py -m model=gpt pos=none,learned,rope seed=0,1,2      one job for each combination""",
    "eval": """\
  python eval.py runs=runs/NAME
  python eval.py runs='runs/*' report=rope_or_alibi                  a glob is quoted
  python eval.py runs=[runs/A,runs/B] evaluate.length.ratios=[1,2,4,8]""",
}


def help_page(configs: Configs, composed: Composed) -> str:
    """The answer to --help, for the choices that stand before it."""
    groups = [group for group in ("model", "pos", "data") if group in configs.groups]
    groups += [group for group in configs.groups if group not in groups and configs.options(group)]
    tables = "\n\n".join(table(configs, group, composed.choices.get(group)) for group in groups)
    comments = configs.comments(composed.choices)
    lines = [
        (f"{key}={shown(value)}", comments.get(key, ("", ""))[1])
        for key, value in composed.values.items()
        if not isinstance(value, dict)
    ]
    return f"""\
poslab finds out what a position encoding does to a Transformer.

{EXAMPLES.get(configs.name, "")}

Words, and the keys below, are set as key=value; a word with a star is taken where you name none.

{tables}

keys and their defaults
{columns(lines)}

  --cfg job      print every key that a run would have, such as {nested(composed)}
  --multirun,-m  a sweep: key=a,b or key=range(0,3) or, for words of a group, key='glob(*2d*)'
  --hydra-help   Hydra's other flags"""


def table(configs: Configs, group: str, chosen: str | None = None) -> str:
    """One line a word; a star marks the chosen one."""
    options = configs.options(group)
    lines = [(f"{option} *" if option == chosen else option, configs.summary(group, option)) for option in options]
    return f"{group}=\n{columns(lines)}"


def columns(lines: Sequence[tuple[str, str]]) -> str:
    width = max((len(left) for left, _ in lines), default=0)
    return "\n".join(f"  {left:{width}}  {right}".rstrip() for left, right in lines)


def nested(composed: Composed) -> str:
    """Two keys below a group, as examples."""
    keys = [
        key for key in composed.keys if key in ("model.dim", "optim.lr", "evaluate.checkpoint", "evaluate.bootstrap")
    ]
    return " or ".join(keys[:2])
