"""Tagging of words: names in sentences, parts of speech. One class for each word, spans where the tags spell some.

A sentence comes as a list of words or as one string. Every word is read whatever its place: what is longer than the
model takes is read in windows, and a word that the tokenizer makes nothing of is tagged as outside.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from variorum.errors import UsageError
from variorum.objectives.base import IGNORED
from variorum.objectives.positions import TokenLabels
from variorum.tasks import decoding, schemes
from variorum.tasks.alignment import Aligned, Sentence, align, targets
from variorum.tasks.estimator import Columns, Estimator, held_out
from variorum.tasks.examined import Choices, Examined, Kinds, Read, of_classes
from variorum.tasks.examples import Example, Padded, inputs_of
from variorum.tasks.labels import LabelSet
from variorum.tasks.metrics import spans as span_metrics
from variorum.tasks.metrics.intervals import ratio_of
from variorum.tasks.schemes import OUTSIDE, Mode, Scheme
from variorum.tasks.targets import OneOf
from variorum.tasks.token_scores import token_scores
from variorum.tasks.windows import View, Viewing, knows_best, reading_length, views

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.face import Model
    from variorum.tasks.metrics.intervals import Figure

    Floats = NDArray[np.float64]

HEAD = "token_classification"
AUTO, NONE = "auto", "none"
NEAR = 12
"""Words on each side of one that are shown with it."""


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Tagger(Estimator):
    """Words to tags.

    Args:
        scheme: how tags spell spans, see :mod:`variorum.tasks.schemes`; "auto" sees it from the tags, "none" takes each
            tag as a class of words that spells nothing.
        mode: how tags that the scheme does not allow are read, and scored.
        pieces: which tokens of a word are taught its tag; further ones are taught that they are inside.
        path: "best" takes the likeliest tag of each word, "legal" the likeliest tags that the scheme allows together.
        stride: tokens from one window to the next; half a window if absent.
        split: how ``predict`` cuts a sentence that comes as a string: at "blanks", as ``fit`` does, or also around
            "signs", as text is that nobody has cut.
    """

    kind: ClassVar[str] = "tag"
    columns: ClassVar[Columns] = Columns(("words",), "tags")

    scheme: str = AUTO
    mode: Mode = "strict"
    pieces: Literal["first", "all"] = "first"
    path: Literal["best", "legal"] = "best"
    stride: int | None = None
    split: Literal["blanks", "signs"] = "blanks"

    def fit(self, X: Any, y: Any) -> Self:
        """Learn.

        Args:
            X: sentences [N], each a list of words or a string cut at blanks.
            y: the tags of each one's words, as lists or as strings cut at blanks.

        Raises:
            UsageError: not one tag for each word, a tag that is none of the scheme, or only one kind of tag.
        """
        sentences, tags = matched(X, y)
        self.begun(tags)
        learned, held = held_out(len(sentences), self.validation, self.seed)
        texts = [sentences[i].text for i in learned]
        model = self.started(HEAD, texts, labels=tuple(self.classes_.tolist()))
        kept, truth = [sentences[i] for i in held], [tags[i] for i in held]

        def judge(model: Model) -> float:
            return self._compared(truth, self._tags(self._probabilities(model, kept)))

        examples = self._examples(model, [sentences[i] for i in learned], [tags[i] for i in learned])
        self.tune(model, TokenLabels(HEAD), examples, Padded(model.tokenizer.pad_id or 0), judge if held else None)
        return self

    def predict_proba(self, X: Any) -> list[Floats]:
        """The probability of each tag for each word of each sentence, [words, tags]."""
        check_is_fitted(self)
        return self._probabilities(self.model_, sentences_of(X, self.split))

    def predict(self, X: Any) -> list[list[str]]:
        """The tags of each sentence's words."""
        return self._tags(self.predict_proba(X))

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """Of each sentence its words, their tags and, where tags spell any, the spans with their characters."""
        check_is_fitted(self)
        sentences = sentences_of(X, self.split)
        probabilities = self._probabilities(self.model_, sentences)
        return [
            {"words": one.strings(), "tags": tags, **self._found(one, tags, sure)}
            for one, tags, sure in zip(sentences, self._tags(probabilities), probabilities, strict=True)
        ]

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """F1 of spans with how tags were read and the figures of each type; of tags that spell none, their accuracy."""
        check_is_fitted(self)
        sentences, truth = matched(X, y)
        predicted = self._tags(self._probabilities(self.model_, sentences))
        size = {"sentences": len(truth), "words": sum(map(len, truth))}
        if self.scheme_ is None:
            return {"accuracy": span_metrics.tags_right(truth, predicted), **size}
        found = span_metrics.report(truth, predicted, self.scheme_, self.mode)
        return {
            "f1": found.micro.f1, "precision": found.micro.precision, "recall": found.micro.recall,
            "macro_f1": found.macro.f1, "scheme": found.scheme, "mode": found.mode, "tags_right": found.tags_right,
            "spans": found.micro.support, **size,
            "types": {name: score._asdict() for name, score in found.types.items()},
        }  # fmt: skip

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """F1 of spans and the share of right tags; of tags that spell none, their accuracy."""
        truth = [_strings(_listed(row) or str(row).split(), number) for number, row in enumerate(_rows(y), 1)]
        right = [sum(map(str.__eq__, row, said)) for row, said in zip(truth, predicted, strict=True)]
        tags = ratio_of(right, [len(row) for row in truth])
        if self.scheme_ is None:
            return {"accuracy": tags}
        each = span_metrics.count(truth, predicted, self.scheme_, self.mode)[1].sum(1)
        return {"f1": lambda counts: span_metrics.f1(counts @ each), "tags_right": tags}

    def examined(self, X: Any, y: Any) -> Examined:
        """Its spans by type, and every word's tag."""
        check_is_fitted(self)
        sentences, truth = matched(X, y)
        probabilities = self._probabilities(self.model_, sentences)
        given = self._tags(probabilities)
        right, said = (list(chain.from_iterable(rows)) for rows in (truth, given))
        spelled = [one.strings() for one in sentences]
        near = [_near(words, at) for words in spelled for at in range(len(words))]
        choices = dataclasses.replace(
            Choices.of(OneOf(self.classes_), right, said, np.concatenate(probabilities)), units="words", texts=near,
            rows=[row for row, tags in enumerate(truth) for _ in tags],
            words=([f"“{word}” {tag}" for word, tag in zip(chain.from_iterable(spelled), right, strict=True)], said),
        )  # fmt: skip
        limit = reading_length(self.model_, self.max_length)
        read = Read.by(self.model_, [one.text for one in sentences], limit, windows=True)
        found = dataclasses.replace(of_classes(read, self.figures(given, truth), choices), measure="tags right")
        if self.scheme_ is None:
            return found
        types, counts = span_metrics.count(truth, given, self.scheme_, self.mode)
        return dataclasses.replace(found, kinds=Kinds(called="type of span", names=types, counts=counts))

    def check(self, given: Any, target: Any) -> None:
        """See that there is one tag for each word, each of the scheme that is known or asked for.

        Raises:
            ValueError: there is not.
        """
        try:
            (tags,) = matched([given], [target])[1]
            asked = None if self.scheme == AUTO else _scheme(self.scheme, [tags])
            scheme: Scheme | None = getattr(self, "scheme_", asked)
            if scheme is not None:
                for tag in tags:
                    scheme.read(tag)
        except UsageError as error:
            raise ValueError(error.what) from None

    def score(self, X: Any, y: Any) -> float:
        """The first figure of :meth:`evaluate`."""
        return float(next(iter(self.evaluate(X, y).values())))

    def begun(self, y: Any) -> None:
        """Take the scheme and the tags that it can spell."""
        self.scheme_ = _scheme(self.scheme, y)
        self.classes_ = np.array(_classes(self.scheme_, y))

    def learned(self) -> dict[str, Any]:
        """Tags and scheme."""
        return {"classes": self.classes_.tolist(), "scheme": None if self.scheme_ is None else self.scheme_.name}

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Take back tags and scheme.

        Raises:
            ValueError: the model's head tells other tags apart.
        """
        self.classes_ = np.array(learned["classes"])
        if self.model_.label_names != tuple(self.classes_.tolist()):
            raise ValueError(f"config.json names other labels than {', '.join(self.classes_.tolist())}")
        self.scheme_ = None if learned["scheme"] is None else schemes.scheme(learned["scheme"])

    def _views(self, model: Model, aligned: Aligned) -> list[View]:
        viewing = Viewing(max_length=reading_length(model, self.max_length), stride=self.stride)
        return views(model.tokenizer, aligned.pieces, viewing)

    def _examples(self, model: Model, sentences: Sequence[Sentence], tags: Sequence[Sequence[str]]) -> list[Example]:
        """One for each window in which a word is taught."""
        known = LabelSet(tuple(self.classes_.tolist()))
        further = None if self.pieces == "first" else known.ids([_further(self.scheme_, tag) for tag in known.names])
        made = []
        for aligned, row in zip(align(model.tokenizer, sentences), tags, strict=True):
            shown = self._views(model, aligned)
            asked = targets(aligned, shown, known.ids(row), further)
            made += [
                Example(inputs=inputs_of(model, view.encoding), target=target)
                for view, target in zip(shown, asked, strict=True)
                if any(label != IGNORED for label in target)
            ]
        return made

    def _probabilities(self, model: Model, sentences: Sequence[Sentence]) -> list[Floats]:
        aligned = align(model.tokenizer, sentences)
        shown = [self._views(model, one) for one in aligned]
        scores = iter(token_scores(model, [view.encoding for views in shown for view in views]))
        return [
            self._of_words(one, views, [next(scores).numpy() for _ in views])
            for one, views in zip(aligned, shown, strict=True)
        ]

    def _of_words(self, aligned: Aligned, shown: Sequence[View], scores: Sequence[Any]) -> Floats:
        """Each word's probabilities, from the window that shows most around it; without a token it is outside."""
        windows = [view.tokens for view in shown]
        found = np.zeros((len(aligned.words), len(self.classes_)))
        found[:, _outside(self.classes_.tolist())] = 1.0
        for word, span in enumerate(aligned.words):
            if span is not None:
                best = knows_best(windows, *span)
                found[word] = decoding.softmax(scores[best][shown[best].place(span[0])])
        return found

    def _tags(self, probabilities: Sequence[Floats]) -> list[list[str]]:
        names = self.classes_.tolist()
        if self.path == "legal" and self.scheme_ is not None:
            rules = decoding.Rules.of(self.scheme_, names)
            return [[names[i] for i in decoding.best_path(rows, rules)] for rows in probabilities]
        return [[names[i] for i in rows.argmax(-1)] if len(rows) else [] for rows in probabilities]

    def _compared(self, truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
        if self.scheme_ is None:
            return span_metrics.tags_right(truth, predicted)
        return span_metrics.report(truth, predicted, self.scheme_, self.mode).micro.f1

    def _found(self, sentence: Sentence, tags: Sequence[str], probabilities: Floats) -> dict[str, Any]:
        """The spans; ``confidence`` is the probability of the least certain of a span's tags."""
        if self.scheme_ is None:
            return {}
        made = []
        sure = probabilities[np.arange(len(tags)), [self.classes_.tolist().index(tag) for tag in tags]]
        for first, end, type_ in self.scheme_.spans(tags, self.mode):
            start, stop = sentence.characters(first, end)
            made.append({"text": sentence.text[start:stop], "type": type_, "start": start, "end": stop,
                         "confidence": float(sure[first:end].min())})  # fmt: skip
        return {"spans": made}


def _near(words: Sequence[str], at: int) -> str:
    """A word and those around it."""
    return " ".join(words[max(0, at - NEAR) : at + NEAR + 1])


def sentences_of(X: Any, split: Literal["blanks", "signs"] = "blanks") -> list[Sentence]:
    """Sentences from lists of words, or from strings.

    Raises:
        UsageError: something that is neither, with its place.
    """
    found = []
    for number, row in enumerate(_rows(X), 1):
        words = _listed(row)
        if words is not None:
            found.append(Sentence.of(_strings(words, number)))
        elif isinstance(row, str):
            found.append(Sentence.split(row) if split == "signs" else Sentence.cut(row))
        else:
            raise UsageError(f"expected words or a text, got {type(row).__name__}", where=f"row {number}")
    return found


def matched(X: Any, y: Any) -> tuple[list[Sentence], list[list[str]]]:
    """Sentences, cut at blanks, and the tags of their words.

    Raises:
        UsageError: as :func:`sentences_of`; or not one tag for each word.
    """
    sentences, tags = sentences_of(X), []
    rows = _rows(y)
    if len(rows) != len(sentences):
        raise ValueError(f"{len(sentences)} sentences, and tags of {len(rows)}")
    for number, (sentence, row) in enumerate(zip(sentences, rows, strict=True), 1):
        listed = _listed(row)
        tags.append(_strings(listed, number) if listed is not None else str(row).split())
        if len(tags[-1]) != len(sentence.words):
            raise UsageError(
                f"{len(sentence.words)} words and {len(tags[-1])} tags", where=f"row {number}",
                remedy="give one tag for each word",
            )  # fmt: skip
    return sentences, tags


def _rows(X: Any) -> list[Any]:
    rows = X.to_list() if hasattr(X, "to_list") else X
    if isinstance(rows, str | bytes) or not hasattr(rows, "__len__"):
        raise ValueError(f"expected a list of sentences, got {type(X).__name__}")
    if not len(rows):
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return list(rows)


def _listed(row: Any) -> list[Any] | None:
    """A row's items: of a list, or of what a table's cell holds of one, which is JSON."""
    if isinstance(row, str):
        try:
            row = json.loads(row) if row.startswith("[") else None
        except (ValueError, RecursionError):
            return None
    return list(row) if isinstance(row, list | tuple | np.ndarray) else None


def _strings(items: Sequence[Any], number: int) -> list[str]:
    odd = next((one for one in items if not isinstance(one, str)), None)
    if odd is not None:
        raise UsageError(f"expected words, got {type(odd).__name__}", where=f"row {number}")
    return [str(one) for one in items]


def _scheme(name: str, tags: Sequence[Sequence[str]]) -> Scheme | None:
    if name.lower() == NONE:
        return None
    return schemes.scheme_of(tags) if name.lower() == AUTO else schemes.scheme(name)


def _classes(scheme: Scheme | None, tags: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """All tags that the scheme can spell with the types that occur; without a scheme those that occur."""
    distinct = {tag for row in tags for tag in row}
    if scheme is None:
        names = LabelSet.of(distinct).names
    else:
        types = {scheme.read(tag).type for tag in distinct if tag != OUTSIDE}
        names = scheme.labels(types)
    if len(names) < 2:
        raise UsageError(
            f"every word has the tag {next(iter(distinct), OUTSIDE)!r}, and one class cannot be told apart",
            where="tags", remedy="give sentences with other tags too",
        )  # fmt: skip
    return names


def _further(scheme: Scheme | None, tag: str) -> str:
    """What a word's further tokens are taught."""
    if scheme is None or tag == OUTSIDE:
        return tag
    return str(scheme.read(tag)._replace(letter=schemes.INSIDE))


def _outside(names: Sequence[str]) -> int:
    """The class of words that no token speaks for: outside, or the first where there is no such thing."""
    return names.index(OUTSIDE) if OUTSIDE in names else 0
