"""How a model is asked for a label: words, as data."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from variorum.errors import DamagedFile, NotFound, UsageError, nearest


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A label: its name in the data, and the words that stand for it before a model; its name unless given."""

    name: str
    words: str = ""

    @property
    def said(self) -> str:
        return self.words or self.name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Template:
    """The words around a text and a label.

    Attributes:
        instruction: said once, first; ``{labels}`` is where the labels are listed. May be empty.
        question: shows a text, at ``{text}``.
        answer: what a label follows, after a blank. A chat template has its own, and does without.
        description: what an encoder reads for a label, with the words that stand for it at ``{label}``.
        between: what stands between examples.
        combine: a label's score is the "sum" of its tokens' log-probabilities, or their "mean": the sum is the
            probability of the whole label and is lower for longer ones, which the correction by a prior evens out.
        chat: whether the question is put as a conversation; ``None``: where the tokenizer has a chat template.
    """

    instruction: str = "Classify the text. Possible labels: {labels}."
    question: str = "Text: {text}"
    answer: str = "Label:"
    description: str = "This text is about {label}."
    between: str = "\n\n"
    combine: str = "sum"
    chat: bool | None = None

    def __post_init__(self) -> None:
        for field, place in (("question", "{text}"), ("description", "{label}")):
            if getattr(self, field).count(place) != 1:
                raise UsageError(f"the {field} has to hold {place} once", where="template")
        if self.combine not in ("sum", "mean"):
            raise UsageError(f"tokens of a label cannot be combined by {self.combine!r}", remedy="use sum or mean")

    def begun(self, candidates: Sequence[Candidate]) -> str:
        """The instruction with the labels listed."""
        return self.instruction.replace("{labels}", ", ".join(one.said for one in candidates))

    def asked(self, text: str) -> str:
        """The question about one text."""
        return self.question.replace("{text}", text)

    def answered(self, text: str, said: str) -> str:
        """A text with its label after it: an example, or what is scored."""
        return f"{self.asked(text)}\n{self.answer} {said}"

    def described(self, candidate: Candidate) -> str:
        """What an encoder reads for a label."""
        return self.description.replace("{label}", candidate.said)


def read_template(path: Path) -> Template:
    """A template from a JSON file whose keys are the fields of :class:`Template`; what it leaves out is as there.

    Raises:
        NotFound: no such file, or a field that templates do not have.
        DamagedFile: no JSON object of texts. UsageError: see :class:`Template`.
    """
    try:
        found = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise NotFound("no such file", where=str(path)) from None
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"cannot be read ({type(error).__name__})", where=str(path)) from None
    known = {field.name for field in dataclasses.fields(Template)}
    if not isinstance(found, dict) or not all(isinstance(said, (str, bool)) for said in found.values()):
        raise DamagedFile("is no JSON object of texts", where=str(path))
    for name in found:
        if name not in known:
            raise NotFound(f"templates have no {name!r}", where=str(path), remedy=nearest(name, known))
    return Template(**found)
