"""Classes, numbers and answers as text: tasks that an encoder-decoder learns by writing the word for each (T5).

A template says how a row is put and is data: T5's own by their names ("mnli", "stsb"), or a sentence with the columns
in braces. Several tasks may train one model together, under one cross-entropy.
"""

from __future__ import annotations

import dataclasses
import re
import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from variorum.errors import UsageError
from variorum.tasks.contexts import tokens_of
from variorum.tasks.estimator import Columns, held_out, texts_of
from variorum.tasks.examined import Choices, Examined, Mistake, of_classes, of_numbers
from variorum.tasks.metrics.intervals import mean_of, over_all
from variorum.tasks.pairs import PairRegressor
from variorum.tasks.questions import located
from variorum.tasks.seq2seq import Seq2Seq
from variorum.tasks.targets import OneOf
from variorum.text import text_to_text as t5

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.inference.looking import Question
    from variorum.tasks.examples import Example
    from variorum.tasks.metrics.intervals import Figure

#: What stands where a model wrote something that is no label.
OFF_LABEL = "(off label)"
ANSWER = "question: {question} context: {context}"


def pattern(template: str, fields: Sequence[str]) -> str:
    """A template with its fields in braces, from T5's name for a task or from a sentence.

    Args:
        template: such as "stsb", or "is this spam? {text}".
        fields: that a row has, in their order; a task of T5's has as many, by its own names.

    Raises:
        UsageError: other fields than a row has.
    """
    if template in t5.FIELDS:
        own = t5.FIELDS[template]
        if len(own) == len(fields):
            return t5.asked(template, **{name: f"{{{field}}}" for name, field in zip(own, fields, strict=True)})
    wanted = {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}
    if wanted != set(fields):
        raise UsageError(
            f"the template {template!r} names {', '.join(sorted(wanted)) or 'no column'}, not {', '.join(fields)}",
            remedy="put each column in braces, once at least",
        )
    return template


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class TextToText(Seq2Seq):
    """What the tasks below share: rows are put by a template, and what is written is one of some labels.

    Args:
        template: T5's name for a task, or a sentence with the columns in braces.
        decoding: "labels" scores every label's tokens and takes the likeliest; "free" writes, and what is no label is
            counted.
    """

    template: str = ""
    decoding: Literal["labels", "free"] = "labels"
    max_target_length: int = 16

    def asked(self, X: Any) -> list[str]:
        """The rows as the template puts them."""
        names = self.columns.inputs
        rows = texts_of(X) if len(names) == 1 else texts_of(X, 2)
        put = pattern(self.template or self._usual(), names)
        parts = ([row] if isinstance(row, str) else row for row in rows)
        return [self.prefix + _filled(put, dict(zip(names, part, strict=True))) for part in parts]

    def _usual(self) -> str:
        return " ".join(f"{name}: {{{name}}}" for name in self.columns.inputs)

    def scores(self, X: Any, labels: Sequence[str]) -> NDArray[np.float64]:
        """log p of each label after each row, [N, labels], its end counted."""
        from variorum.inference.choices import answer_scores

        check_is_fitted(self)
        prompts = [one.ids for one in self.encode(self.model_, self.asked(X))]
        answers = [self.ended(self.model_, labels)] * len(prompts)
        return answer_scores(self.model_, prompts, answers, start=self._start()).numpy()

    def _start(self) -> int:
        """What the decoder begins with."""
        from variorum.inference.habits import forced

        said = forced(self.model_, self.target_language).start
        start = self.model_.spec.architecture.main.tokens.start_id if said is None else said
        assert isinstance(start, int)
        return start


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class TextClassifier(ClassifierMixin, TextToText):
    """A text's label, written as a word."""

    kind: ClassVar[str] = "classify-text"
    columns: ClassVar[Columns] = Columns(("text",), "label")

    def begun(self, y: Any) -> None:
        self.classes_ = np.unique(column_or_1d(y))

    def told(self, y: Any) -> list[str]:
        return [str(label) for label in column_or_1d(y).tolist()]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The share that each label has of all labels' probability, [N, labels]."""
        scores = self.scores(X, self._names)
        shares = np.exp(scores - scores.max(1, keepdims=True))
        return shares / shares.sum(1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:
        """A label for each row; where it writes freely, :data:`OFF_LABEL` for what is none."""
        if self.decoding == "labels":
            return np.asarray(self.classes_[self.predict_proba(X).argmax(1)])
        known = {_plain(name): label for name, label in zip(self._names, self.classes_.tolist(), strict=True)}
        return np.array([known.get(_plain(text), OFF_LABEL) for text in self.write(self.asked(X))], dtype=object)

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """The label of each row, and its share of the probability where labels are scored."""
        if self.decoding == "free":
            return [{"label": label} for label in self.predict(X).tolist()]
        shares = self.predict_proba(X)
        labels = self.classes_[shares.argmax(1)].tolist()
        return [{"label": one, "confidence": float(share.max())} for one, share in zip(labels, shares, strict=True)]

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """Macro-F1 over the labels that occur, accuracy, and how often no label was written."""
        found, right = self.predict(X), column_or_1d(y)
        return {
            "macro_f1": over_all(self.figures(found, right)["macro_f1"], len(right)),
            "accuracy": float(np.mean([a == b for a, b in zip(found.tolist(), right.tolist(), strict=True)])),
            "off_label": found.tolist().count(OFF_LABEL), "rows": len(right),
        }  # fmt: skip

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """Macro-F1 and accuracy."""
        from variorum.tasks.metrics.classes import macro_f1_of

        labels = np.array(sorted({*map(str, predicted), *map(str, y)} - {OFF_LABEL}))
        given, truth = (np.array([[str(one)] for one in rows]) == labels for rows in (predicted, y))
        return {"macro_f1": macro_f1_of(given, truth), "accuracy": mean_of((given & truth).any(-1))}

    def examined(self, X: Any, y: Any) -> Examined:
        """Its classes; what it wrote that is none is one of its own."""
        right = column_or_1d(y).tolist()
        chances = self.predict_proba(X) if self.decoding == "labels" else None
        given = self.predict(X).tolist() if chances is None else self.classes_[chances.argmax(1)].tolist()
        said = Choices.of(OneOf(self.classes_), right, given, chances)
        return of_classes(self.read(X), self.figures(given, right), said)

    def learned(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist()}

    def recall(self, learned: Mapping[str, Any]) -> None:
        super().recall(learned)
        self.classes_ = np.array(learned["classes"])

    @property
    def _names(self) -> list[str]:
        return [str(label) for label in self.classes_.tolist()]


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class TextPairClassifier(TextClassifier):
    """A pair's label, written as a word."""

    kind: ClassVar[str] = "pairs-text"
    columns: ClassVar[Columns] = Columns(("text1", "text2"), "label")


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class TextPairRegressor(RegressorMixin, TextToText):
    """A pair's number, written as the nearest multiple of a step: 2.57 in steps of 0.2 is "2.6".

    Args:
        step: between two numbers that can be written.
        limits: the least and the greatest of them; those of what was learned from if absent.
    """

    kind: ClassVar[str] = "pairs-number-text"
    columns: ClassVar[Columns] = Columns(("text1", "text2"), "score")

    step: float = t5.STEP
    limits: tuple[float, float] | None = None

    def begun(self, y: Any) -> None:
        values = column_or_1d(y).astype(float)
        low, high = (values.min(), values.max()) if self.limits is None else self.limits
        self.limits_ = float(low), float(high)

    def told(self, y: Any) -> list[str]:
        return [t5.number_text(float(value), self.step) for value in column_or_1d(y).astype(float)]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """A number for each pair; where it writes freely, the middle of the limits for what is none."""
        if self.decoding == "labels":
            names = self._names
            return np.array([float(name) for name in names])[self.scores(X, names).argmax(1)]
        low, high = self.limits_
        found = [t5.text_number(text) for text in self.write(self.asked(X))]
        self.off_label_ = sum(one is None for one in found)
        return np.array([(low + high) / 2 if one is None else min(max(one, low), high) for one in found])

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """The number of each pair."""
        return [{"score": float(value)} for value in self.predict(X)]

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """Correlations with what is right, and the mean differences."""
        from variorum.tasks.metrics.correlation import agreement

        found = agreement(self.predict(X), column_or_1d(y).astype(float))
        return found if self.decoding == "labels" else found | {"off_label": self.off_label_}

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """Rank correlation, and the mean absolute error."""
        from variorum.tasks.metrics.correlation import agreement_of

        return agreement_of(np.asarray(predicted), column_or_1d(y).astype(float))

    def examined(self, X: Any, y: Any) -> Examined:
        """How far its numbers are from what is right."""
        found, right = self.predict(X), column_or_1d(y).astype(float)
        return of_numbers(self.read(X), self.figures(found, right), found, right, self.columns.target)

    @classmethod
    def target(cls, cell: str) -> float:
        return PairRegressor.target(cell)

    def learned(self) -> dict[str, Any]:
        return {"limits": list(self.limits_)}

    def recall(self, learned: Mapping[str, Any]) -> None:
        super().recall(learned)
        low, high = learned["limits"]
        self.limits_ = (float(low), float(high))

    @property
    def _names(self) -> list[str]:
        """Every number that can be written, as it is."""
        low, high = (round(limit / self.step) for limit in self.limits_)
        return [t5.number_text(count * self.step, self.step) for count in range(low, high + 1)]


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class TextAnswerer(TextToText):
    """A question's answer, written; the text that it is read from comes behind it."""

    kind: ClassVar[str] = "answer-text"
    columns: ClassVar[Columns] = Columns(("question", "context"), "answer", shared=1)

    decoding: Literal["free"] = "free"
    max_target_length: int = 48

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """The answer to each question."""
        return [{"answer": text} for text in self.predict(X)]

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """F1 and exact match as SQuAD has them."""
        exact, f1 = self._compared(predicted, y)
        return {"f1": mean_of(f1), "exact": mean_of(exact)}

    def examined(self, X: Any, y: Any) -> Examined:
        """Its answers beside the right ones."""
        given, right, read = self.predict(X).tolist(), self.told(y), self.read(X)
        exact, f1 = self._compared(given, y)
        mistakes = [
            Mistake(row=row, text=read.texts[row], truth=right[row], answer=given[row], by=1 - f1[row],
                    note=f"F1 {f1[row]:.2f}")
            for row in range(len(right)) if not exact[row]
        ]  # fmt: skip
        return Examined(
            read=read, figures=self.figures(given, y), each=np.array(f1), measure="F1", mistakes=mistakes
        )  # fmt: skip

    def looked(self, X: Any, y: Any) -> list[Question]:
        """Questions as ids with their answers, as far as these stand in what is read; see :mod:`.gazes`."""
        from variorum.inference.looking import Question

        check_is_fitted(self)
        told, made = self.told(y), []
        rows = zip(texts_of(X, 2), self.asked(X), told, self.ended(self.model_, told), strict=True)
        for (question, context), put, answer, ids in rows:
            place, (encoding,) = located(context, answer), self.encode(self.model_, [put])
            at, asking = put.rindex(context), put.index(question)
            span = place and tokens_of(encoding.offsets, (at + place[0], at + place[1]))
            asked = tokens_of(encoding.offsets, (asking, asking + len(question)))
            if span is not None and asked is not None:
                made.append(Question(
                    ids=encoding.ids, asking=(asked[0], asked[1] + 1), span=(span[0], span[1] + 1),
                    answer=[self._start(), *ids[:-2]],
                ))  # fmt: skip
        return made

    def _compared(self, predicted: Any, y: Any) -> tuple[list[float], list[float]]:
        """Exact match and F1 of each question."""
        from variorum.tasks.metrics import squad

        return squad.scores(list(predicted), [[one] if one else [] for one in self.told(y)])

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """F1 and exact match as SQuAD has them, and ROUGE-L."""
        from variorum.tasks.metrics import squad
        from variorum.tasks.metrics.text import rouge_l

        written, right = list(self.predict(X)), self.told(y)
        found = squad.report(written, [[one] if one else [] for one in right]).all
        return {
            "f1": found.f1, "exact": found.exact, "rouge_l": rouge_l(written, right), "rows": found.questions,
        }  # fmt: skip

    def _usual(self) -> str:
        return ANSWER


def train_together(
    tasks: Mapping[str, TextToText], rows: Mapping[str, tuple[Any, Any]], *, limit: int | None = None,
    temperature: float = 1.0,
) -> None:  # fmt: skip
    """Train one model on several tasks: every target's token counts alike, whatever its task.

    How often a task's rows are read follows :func:`variorum.objectives.mixture.mixing_rates`. The first task's
    parameters say how the model is trained; each comes to hold the same model.

    Args:
        tasks: by name, each with a template that tells it from the others.
        rows: the X and y of each.
        limit: the number of rows that a task is taken for at most.
        temperature: 1 is in proportion to the rows; the higher, the more alike.

    Raises:
        UsageError: other names in the one than in the other, or none.
    """
    from variorum.objectives.mixture import mixing_rates

    if not tasks or tasks.keys() != rows.keys():
        raise UsageError("a mixture needs rows for each of its tasks", remedy="name the same tasks in both")
    first = next(iter(tasks.values()))
    asked, told = {}, {}
    for name, task in tasks.items():
        X, y = rows[name]
        task.begun(y)
        asked[name], told[name] = task.asked(X), task.told(y)
        check_consistent_length(asked[name], told[name])
    model = first.ready([text for name in tasks for text in (*asked[name], *told[name])])
    learned: list[Example] = []
    held: list[Example] = []
    sizes = {name: len(asked[name]) for name in tasks}
    rates = mixing_rates(sizes, limit=limit, temperature=temperature)
    for name, task in tasks.items():
        examples = task.examples(model, asked[name], told[name])
        mine, kept = held_out(len(examples), first.validation, first.seed)
        wanted = round(rates[name] * sum(sizes.values()) * len(mine) / sizes[name])
        learned += [examples[mine[i % len(mine)]] for i in range(wanted)]
        held += [examples[i] for i in kept]
    first.learn(model, learned, held)
    for task in tasks.values():
        task.model_, task.history_ = model, first.history_


def _filled(put: str, fields: Mapping[str, str]) -> str:
    """A template with its fields in place; braces in a text are text."""
    return re.sub(r"\{(\w+)\}", lambda found: fields[found[1]], put)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
