"""Classes by their names alone: models that were never trained on the labels say how well each fits a text.

There is one interface, :class:`Scorer`, and three ways to have it: a decoder or encoder-decoder scores each label's
tokens after a prompt (:mod:`.prompted`), a masked language model at masks within one (:mod:`.masked`), and an encoder
compares a text's vector with that of each label's description (:mod:`.described`). What is made of the scores, such as
a correction for labels that a model likes whatever the text, is :mod:`variorum.tasks.labelling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from variorum.errors import NotFound, UsageError, nearest
from variorum.tasks.zero_shot.template import Candidate, Template, read_template

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from variorum.model import Model

Way = Literal["prompt", "mask", "description"]
Example = tuple[str, str]

__all__ = ["Candidate", "Example", "Scorer", "Template", "Way", "read_template", "scorer"]


class Scorer(Protocol):
    """Says how well each label fits a text."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the C labels, in the order of the scores."""

    def scores(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Log-scores [N, C]: their softmax is what the model holds likely, before any correction."""


def way_of(model: Model) -> Way:
    """How a model can score labels: by its language-model head, and by its vectors where it has none."""
    if {"causal_lm", "seq2seq_lm"} & set(model.head_names):
        return "prompt"
    return "mask" if "masked_lm" in model.head_names else "description"


def scorer(
    model: Model, candidates: Sequence[Candidate], *, template: Template | None = None,
    examples: Sequence[Example] = (), way: Way | None = None,
) -> Scorer:  # fmt: skip
    """What scores ``candidates`` with ``model``.

    Args:
        model: any that reads text, with its tokenizer.
        candidates: the labels, each with the words that stand for it.
        template: how a text is asked about; a plain question in English unless given.
        examples: texts with the names of their labels, shown before each question.
        way: how; as the model's head allows unless given.

    Raises:
        UsageError: fewer than two labels, or two of one name; examples for a model that is shown none.
        NotFound: an example has another label.
    """
    names = [one.name for one in candidates]
    if len(names) < 2 or len(set(names)) < len(names):
        raise UsageError(f"labels {', '.join(names) or '(none)'}", remedy="give at least two, each once")
    strange = next((label for _, label in examples if label not in names), None)
    if strange is not None:
        raise NotFound(f"an example has the label {strange!r:.60}", remedy=nearest(strange, names) or "name it")
    way, template = way or way_of(model), template or Template()
    if way == "prompt":
        from variorum.tasks.zero_shot.prompted import Prompted

        return Prompted(model, candidates, template, examples)
    if examples:
        raise UsageError(f"{model.spec.name} is shown no examples: it does not write", remedy="give a decoder, or none")
    if way == "mask":
        from variorum.tasks.zero_shot.masked import Masked

        return Masked(model, candidates, template)
    from variorum.tasks.zero_shot.described import Described

    return Described(model, candidates, template)
