"""Add two whole numbers, digit by digit."""

from __future__ import annotations

import torch
from torch import Tensor

from .synthetic import Draw, Synthetic, answer_mask

PLUS, EQUALS = 10, 11


class Addition(Synthetic):
    """653+049=2070: two numbers of L digits each, and their sum of L + 1 digits, the last digit first.

    Zeros fill up the shorter number and the sum, so that a length fixes where everything stands, and
    the sum is written from its last digit on, so that a carry is known when it is needed (Lee et al.
    2023, Teaching Arithmetic to Small Transformers; the whole form as in Cho et al. 2024, Position
    Coupling). `order="plain"` writes the sum as people do, as Kazemnejad et al. 2023 (NoPE) have it,
    whose numbers are not filled up: its first digit may depend on all others. Digits are independent
    and equally likely.

    Args:
        length: digits of a number. order: reversed or plain, of the sum. Others are those of `Synthetic`.
    """

    unit = "digits"
    rule = "add two numbers"

    def __init__(
        self, length: int = 8, order: str = "reversed", samples: int = 20_000, lengths: str = "varied"
    ) -> None:
        if order not in ("reversed", "plain"):
            raise ValueError(f"data.order={order} is none of reversed, plain.")
        self.order = order
        super().__init__("0123456789+=", length, samples, lengths)

    def problem(self, draw: Draw, length: int) -> tuple[Tensor, Tensor]:
        a, b = draw.symbols(length, 10), draw.symbols(length, 10)
        carry, digits = torch.zeros_like(a[:, 0]), []
        for place in reversed(range(length)):
            column = a[:, place] + b[:, place] + carry
            digits.append(column % 10)
            carry = column // 10
        total = torch.stack([*digits, carry], dim=1)
        if self.order == "plain":
            total = total.flip(1)
        plus, equals = (torch.full((len(a), 1), sign) for sign in (PLUS, EQUALS))
        return torch.cat((a, plus, b, equals, total), dim=1), answer_mask(3 * length + 3, length + 1)

    def chance(self, length: int) -> float:
        return 10**-length / 2  # the leading digit of a sum is 0 or 1
