"""No position encoding."""

from .base import PositionEncoding


class NoPosition(PositionEncoding):
    """Nothing is added anywhere.

    NoPE: Haviv et al. 2022, "Transformer Language Models without Positional Encodings Still Learn
    Positional Information"; Kazemnejad et al. 2023, "The Impact of Positional Encoding on Length
    Generalization", section 3. A causal model can still count the tokens that it sees; without
    causality the model is a function of a set. Past the trained extent nothing changes.
    """

    shift_invariant = unbounded = True
