"""Find a key in a long text that has nothing to do with it."""

from __future__ import annotations

import torch
from torch import Tensor

from .synthetic import Draw, Synthetic, answer_mask, letters


class Passkey(Synthetic):
    """cab#40713bacca#40713: digits behind a mark, somewhere in filler, are asked for at the end.

    Mohtashami & Jaggi 2023 (Landmark Attention), where the filler is a few sentences over
    and over. Here it is L random letters, and every place between them is equally likely. The answer
    is equally long at every length: what grows is the distance and what lies in between.

    Args:
        length: letters of filler. digits: of the key. filler: how many kinds of letters there are.
        Others are those of `Synthetic`.
    """

    unit = "filler tokens"
    rule = "repeat the key that is hidden in filler"

    def __init__(
        self, length: int = 64, digits: int = 5, filler: int = 16, samples: int = 20_000, lengths: str = "varied"
    ) -> None:
        if digits < 1 or filler < 1:
            raise ValueError(f"data=passkey wants digits >= 1 and filler >= 1, not {digits} and {filler}.")
        self.digits, self.filler = digits, filler
        super().__init__("0123456789#" + letters(filler), length, samples, lengths)

    def problem(self, draw: Draw, length: int) -> tuple[Tensor, Tensor]:
        place = draw.symbols(1, length + 1)  # letters in front of the key
        key = draw.symbols(self.digits, 10)
        letters = 11 + draw.symbols(length, self.filler)
        marked = torch.cat((torch.full_like(place, 10), key), dim=1)
        step, inside = torch.arange(length), torch.arange(self.digits + 1)
        where = torch.cat((step + (step >= place) * len(inside), place + inside), dim=1)
        hidden = torch.cat((letters, marked), dim=1)
        text = torch.empty_like(hidden).scatter(1, where, hidden)
        return torch.cat((text, marked), dim=1), answer_mask(length + 2 * len(inside), self.digits)

    def chance(self, length: int) -> float:
        return 10**-self.digits
