"""Let a trained GPT write: python -m poslab.generate <run> "prompt"."""

from __future__ import annotations

import argparse
import sys

from .errors import UsageError
from .trust import trust


def main(arguments: list[str] | None = None) -> int:
    """Print the prompt and what follows it; 2 with a sentence where that cannot be."""
    parser = argparse.ArgumentParser("python -m poslab.generate", description=__doc__)
    parser.add_argument("run", help="a run directory of a GPT")
    parser.add_argument("prompt", help="text to go on from")
    parser.add_argument("--tokens", type=int, default=200, help="how many to write (default 200)")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 always takes the likeliest (default 0.8)")
    parser.add_argument("--top-k", type=int, default=None, help="choose among the k likeliest (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", choices=("last", "best"), default="last")
    parser.add_argument("--trust", nargs="+", default=[], metavar="PACKAGE", help="whose classes the run may name")
    options = parser.parse_args(arguments)
    trust(*options.trust)
    try:
        print(generate(options))
    except (UsageError, ValueError, FileNotFoundError) as error:  # sentences; NotDefined is one
        print(f"poslab: {error}", file=sys.stderr)
        return 2
    return 0


def generate(options: argparse.Namespace) -> str:
    """The prompt and `options.tokens` more, as text. UsageError for a run without a GPT or an empty prompt."""
    import torch

    from .models import GPT
    from .run import load_run

    run = load_run(options.run)
    model = run.load_model(options.checkpoint)
    if not isinstance(model, GPT):
        raise UsageError(f"{run.directory} is a {run.choices['model']}, and only a GPT writes text.")
    prompts = run.prompts
    prompt = prompts.encode(options.prompt)
    if not prompt:
        raise UsageError("The prompt is empty: give at least one character to go on from.")
    generator = torch.Generator().manual_seed(options.seed)
    tokens = model.generate(
        torch.tensor([prompt]), options.tokens, options.temperature, options.top_k, generator=generator
    )
    return prompts.decode(tokens[0].tolist())


if __name__ == "__main__":
    sys.exit(main())
