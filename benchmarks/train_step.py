"""Our training step over that of other people's models, of the same shapes and with the same optimiser."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from . import peers
from .models import GPTS, SMALL_GPT, SMALL_VIT, VITS, Shape, batch, build, parameters
from .pairs import Comparison, ratio
from .peers import images, text
from .report import Options, main
from .step import Step

OURS = ("trunk.position",)  # the parameters of our encodings
PEERS = {"image": images.PEERS, "text": text.PEERS}


def rows(options: Options) -> Iterator[Comparison]:
    for shape in (SMALL_VIT, SMALL_GPT) if options.small else (*VITS, *GPTS):
        for peer in PEERS[shape.kind]:
            case = f"{shape.name}, `{peer.word}`"
            if options.wants(case, peer.name):
                ours, theirs = contestants(shape, peer, options.compile)
                found = ratio(case, peer.name, ours, theirs, options.pairs, peer.goal)
                ours.check()
                theirs.check()
                yield found


def contestants(shape: Shape, peer: peers.Peer, compiled: bool = False) -> tuple[Step, Step]:
    """Our step and theirs; RuntimeError where the two models are not of the same size."""
    ours = build(shape, peer.word, *peer.overrides)
    torch.manual_seed(0)
    theirs = peer.build(shape)
    counts = parameters(ours, OURS), parameters(theirs, peer.positions)
    if counts[0] != counts[1]:
        raise RuntimeError(f"{peer.name} learns {counts[1]:,} numbers beside its encoding, ours {counts[0]:,}.")
    data = batch(shape)
    return Step(ours, data, compiled), Step(theirs, data, compiled)


if __name__ == "__main__":
    main("train_step", rows)
