"""How much may differ. Every tolerance of the comparison with the oracle stands here, once.

The unit of scores is their spread: the standard deviation of all compared scores in float64. The unit of gradients
is the largest gradient in the model, never of one tensor: a key bias has gradient zero, and its rounding would be
divided by itself.
"""

from __future__ import annotations

#: float64, forward: eager against the oracle run in exact float64.
SCORES = 1e-11
#: float64, backward.
GRADIENTS = 1e-10
#: float32: our error may be this many times the oracle's own float32 error …
NARROW_FACTOR = 2.0
#: … plus this part of the spread.
NARROW_FLOOR = 1e-6
#: A flipped field must be seen by at least this many times the gate.
MUTATION_FACTOR = 10.0
#: What the same weights in another backend may differ by in float64: other order of summation, nothing else.
BACKENDS = 1e-11


def narrow_limit(oracle_error: float) -> float:
    """The largest float32 error allowed, in spreads, given the oracle's own."""
    return NARROW_FACTOR * oracle_error + NARROW_FLOOR
