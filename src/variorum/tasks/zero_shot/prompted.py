"""Labels scored by a model that writes: the log-probability of each label's tokens after a prompt.

The prompt is a template's words, examples where there are some, and the text; what all prompts begin with is read once
and kept (:class:`~variorum.inference.prefix.PrefixCache`), and a text's own prompt is read once for all labels. An
encoder-decoder reads the prompt and its decoder scores the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from variorum.errors import UsageError
from variorum.inference.encode import longest_input, tokenizer_of
from variorum.tasks.zero_shot.template import Candidate, Template

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from variorum.inference.prefix import PrefixCache
    from variorum.model import Model
    from variorum.text import Tokenizer

SHARED = 32  # a shared beginning of fewer tokens is not worth being kept
KEPT = 1 << 29  # bytes for it
PLACE = "\ue0f0"  # where the text goes in a conversation; a private-use character, which no text holds


class Asked(NamedTuple):
    """A text as the model reads it: the tokens before a label, and each label's own."""

    prompt: list[int]
    labels: list[list[int]]


class Prompted:
    """Tokens that all labels begin with tell none from another, and are counted to the prompt.

    Raises:
        UsageError: the model does not write, or the conversation cannot be put by its chat template.
    """

    def __init__(
        self, model: Model, candidates: Sequence[Candidate], template: Template, examples: Sequence[tuple[str, str]]
    ) -> None:
        from variorum.inference.generate import require_decoder

        require_decoder(model)
        self.labels = tuple(one.name for one in candidates)
        self._model, self._combine = model, template.combine
        said = {one.name: one.said for one in candidates}
        shown = [(text, said[label]) for text, label in examples]
        words = [one.said for one in candidates]
        self._ask = _asker(model, template, template.begun(candidates), shown, words)
        self._prefixes, self._limit = self._kept(), longest_input(model)

    def scores(self, texts: Sequence[str]) -> NDArray[np.float64]:
        import numpy as np

        from variorum.inference.choices import answer_scores

        asked = [self._ask(text) for text in texts]
        longest = max((len(one.prompt) + max(map(len, one.labels)) for one in asked), default=0)
        if self._limit is not None and longest > self._limit:
            raise UsageError(
                f"a prompt of {longest:,} tokens is longer than the {self._limit:,} this model takes",
                remedy="show fewer examples, or shorten the texts",
            )
        answers = [one.labels for one in asked]
        total = answer_scores(self._model, [one.prompt for one in asked], answers, prefixes=self._prefixes).numpy()
        if self._combine == "mean":
            total = total / np.array([[len(label) for label in labels] for labels in answers])
        return total.reshape(len(texts), len(self.labels))

    def _kept(self) -> PrefixCache | None:
        """A place for what all prompts begin with, where that is long and can be kept."""
        from variorum.attention.cache import PLAN
        from variorum.inference.prefix import PrefixCache

        shared = _shared([self._ask(text).prompt for text in ("one text", "Another: 2")])
        if shared < SHARED:
            return None
        prefixes = PrefixCache(self._model, KEPT, piece=shared)
        try:
            prefixes.require(self._model, PLAN)
        except UsageError:
            return None  # this model has to read each text as a whole
        return prefixes


def _asker(
    model: Model, template: Template, begun: str, shown: Sequence[tuple[str, str]], words: Sequence[str]
) -> Callable[[str], Asked]:
    """What makes a text the ids that the model reads."""
    from variorum.text.chat import has_template

    tokenizer = tokenizer_of(model)
    writes_alone = model.spec.architecture.encoder is None
    if writes_alone and (has_template(tokenizer) if template.chat is None else template.chat):
        return _conversation(tokenizer, template, begun, shown, words)
    parts = [*([begun] if begun else []), *(template.answered(text, said) for text, said in shown)]
    head = "".join(part + template.between for part in parts)
    if writes_alone:
        first, _ = tokenizer.wrapper.around

        def continued(text: str) -> Asked:
            wholes = tokenizer.encode_batch([head + template.answered(text, said) for said in words], specials=False)
            return _apart([[*first, *one.ids] for one in wholes])

        return continued
    answers = [tokenizer.encode(said, specials=False).ids for said in words]

    def answered(text: str) -> Asked:
        prompt = tokenizer.encode(f"{head}{template.asked(text)}\n{template.answer}").ids
        return Asked(prompt, answers)

    return answered


def _conversation(
    tokenizer: Tokenizer, template: Template, begun: str, shown: Sequence[tuple[str, str]], words: Sequence[str]
) -> Callable[[str], Asked]:
    """The same as turns of a user, who asks, and the model, whose turn is a label."""
    from variorum.text.chat import chat_form

    turns = [*((template.asked(text), said) for text, said in shown), (template.asked(PLACE), "")]
    if begun:
        turns[0] = f"{begun}{template.between}{turns[0][0]}", turns[0][1]
    messages = [
        {"role": role, "content": content}
        for turn in turns
        for role, content in zip(("user", "assistant"), turn, strict=True)
    ]
    filled = chat_form(tokenizer, messages[:-1], PLACE)
    return lambda text: _apart([filled(text, said) for said in words])


def _shared(rows: Sequence[Sequence[int]]) -> int:
    """How many first ids all rows have in common."""
    columns = enumerate(zip(*rows, strict=False))
    return next((at for at, ids in columns if len(set(ids)) > 1), min(map(len, rows)))


def _apart(wholes: Sequence[list[int]]) -> Asked:
    """Prompts with a label each, as what they share and what each has of its own, which is never nothing."""
    shared = min(_shared(wholes), *(len(ids) - 1 for ids in wholes))
    return Asked(wholes[0][:shared], [ids[shared:] for ids in wholes])
