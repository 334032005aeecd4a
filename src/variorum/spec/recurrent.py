"""What read text before attention did: two stacks of LSTMs, one from each end, kept as a contrast."""

from __future__ import annotations

from variorum.spec.inputs import TokenInput
from variorum.spec.part import Part, part, seen


@part
class Recurrent(Part):
    """Two stacks of ``depth`` LSTMs over one input, of which neither sees what the other has read (ELMo).

    One reads from the left, one from the right, each in half of the model's width; a layer's state is both halves side
    by side, and from the second layer on a half is added to what it becomes. What heads read is a learned mix of all
    layers, the input among them, scaled by one number (Peters et al. 2018, section 3). ``cells`` are the cells of each
    LSTM, projected to its half (``None``: as many as it is wide, and no projection). ``dropout`` acts on what each
    LSTM reads.
    """

    input: TokenInput = seen(by="load")
    depth: int = seen(by="load", default=2)
    cells: int | None = seen(by="load", default=None)
    dropout: float = seen(by="training", default=0.0)

    @property
    def tokens(self) -> TokenInput:
        """Its input, which always reads token ids."""
        return self.input
