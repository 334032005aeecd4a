"""What a monitor looks at: the figures of some inputs and of a trained task's answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from variorum.tasks.profile import Signals

if TYPE_CHECKING:
    from variorum.tasks.estimator import Estimator

ANSWER, CONFIDENCE = "label", "confidence"
NO_ANSWER = "(none)"


def signals(estimator: Estimator, inputs: Sequence[Any]) -> Signals:
    """The signals of N inputs.

    A vector is the mean of the states of what the task reads, whatever the model that it began with says of sentences:
    saved and loaded, the task knows nothing of that any more.

    Args:
        estimator: fitted.
        inputs: texts, or pairs of them.
    """
    import numpy as np

    from variorum.inference.encode import tokenizer_of
    from variorum.inference.sentences import MEAN
    from variorum.inference.vectors import read
    from variorum.tasks.language import slices

    answers = estimator.answers(inputs)
    texts = [one if isinstance(one, str) else "\n".join(one) for one in inputs]
    tokenizer = tokenizer_of(estimator.model_)
    ids = [one.ids for one in tokenizer.encode_batch(texts, specials=False)]
    unknown = tokenizer.unk_id
    numbers = {
        "length": [float(len(one)) for one in ids],
        "unknown": [sum(id == unknown for id in one) / max(1, len(one)) for one in ids],
    }
    if answers and CONFIDENCE in answers[0]:
        numbers[CONFIDENCE] = [float(one[CONFIDENCE]) for one in answers]
    kinds = {"language": slices(texts)}
    if answers and ANSWER in answers[0]:
        kinds[ANSWER] = [NO_ANSWER if one[ANSWER] is None else str(one[ANSWER]) for one in answers]
    vectors = read(estimator.model_, estimator.encode(estimator.model_, texts), MEAN)
    return Signals(
        kinds=kinds,
        numbers={name: np.asarray(values, dtype=float) for name, values in numbers.items()},
        vectors=vectors.double().cpu().numpy(),
    )
