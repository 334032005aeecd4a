"""Answers to questions, each a stretch of a context that is given with the question, or that there is none.

A long context is read in windows, each beside the whole question; the best stretch of all windows is the answer, cut
out of the context as it was written. Where some questions have no answer, a threshold on the probability of that is
tuned on the contexts that were held out.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from variorum.errors import UsageError
from variorum.objectives.positions import Stretches
from variorum.tasks import best_spans
from variorum.tasks.best_spans import Said, Search
from variorum.tasks.contexts import Context, Pair, contexts, in_row
from variorum.tasks.estimator import Columns, Estimator, held_out, texts_of
from variorum.tasks.examined import Belief, Examined, Mistake, Read, taken_for
from variorum.tasks.examples import IDS, SEGMENTS, Example, Padded, inputs_of
from variorum.tasks.metrics import squad
from variorum.tasks.metrics.intervals import mean_of
from variorum.tasks.questions import Answers
from variorum.tasks.windows import Viewing, reading_length

if TYPE_CHECKING:
    from variorum.face import Model
    from variorum.inference.looking import Question
    from variorum.tasks.examined import Floats
    from variorum.tasks.metrics.intervals import Figure
    from variorum.text.encoding import Offset

HEAD: Literal["question_answering"] = "question_answering"
SPAN_HEAD = "answer_span"
LENGTH, STRIDE = 384, 128
"""Tokens of a window, and from one to the next, as in the released code of BERT."""
SOME, NONE = "an answer", "no answer"
"""What reports call questions that have one, and that have none."""
NEVER, EVEN = 1.0, 0.5
"""Thresholds on the probability of no answer: one that nothing exceeds, and one that nobody has tuned."""


class Found(NamedTuple):
    """A stretch of a context, in its characters, and its probability among all that were found."""

    text: str
    start: int
    end: int
    probability: float


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Answerer(Estimator):
    """Questions with a context to answers.

    Args:
        head: what scores beginnings and ends apart, or chooses the end for the start, where the model has such.
        stride: tokens from one window over a context to the next; at most what a window has room for.
        longest: tokens of the longest answer.
        no_answer: an answer in the data that says that there is none, as the empty one always does.
    """

    kind: ClassVar[str] = "answer"
    columns: ClassVar[Columns] = Columns(("question", "context"), "answer", optional=True, shared=1)

    head: Literal["question_answering", "answer_span"] = HEAD
    stride: int = STRIDE
    longest: int = 30
    no_answer: str | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Learn.

        Args:
            X: pairs of a question and its context [N].
            y: the answers to each, as :meth:`Answers.of` takes them. The first is learned from; one that does not
                stand in its context is not, and these are counted in a warning.

        Raises:
            UsageError: an answer that does not stand where it is said to, or a question that leaves no room.
        """
        pairs, known = self._rows(X, y)
        places = _places(pairs, known)
        away = self._held_out(pairs)
        held = [i for i, pair in enumerate(pairs) if pair[1] in away]
        learned = [
            i for i, pair in enumerate(pairs) if pair[1] not in away and (places[i] or not known[i].texts)
        ]  # fmt: skip
        self.threshold_ = NEVER if all(one.texts for one in known) else EVEN
        model = self.started(self.head, [text for i in learned for text in pairs[i]])
        examples = self._examples(model, [pairs[i] for i in learned], [places[i] for i in learned])
        kept, truth = [pairs[i] for i in held], [known[i] for i in held]

        def judge(model: Model) -> float:
            return self._tuned(self._said(model, kept), truth)[0]

        self.tune(model, Stretches(model.head_names[0]), examples, Padded(model.tokenizer.pad_id or 0),
                  judge if held else None)  # fmt: skip
        if held and self.threshold_ < NEVER:
            self.threshold_ = self._tuned(self._said(model, kept), truth)[1]
        return self

    def nbest(self, X: Any, count: int = 20) -> list[list[Found]]:
        """The ``count`` best stretches of each context, best first."""
        return [_found(context, said)[:count] for context, said in self._read(X)]

    def predict(self, X: Any) -> list[str]:
        """The answer to each question, empty for none."""
        return [answer["answer"] for answer in self.answers(X)]

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """Each answer with its characters in the context and its probability, and that of there being none."""
        return [self._answer(context, said) for context, said in self._read(X)]

    def looked(self, X: Any, y: Any) -> list[Question]:
        """Questions as ids with their first answers, as far as these stand in a window; see :mod:`.gazes`."""
        from variorum.inference.looking import Question

        check_is_fitted(self)
        pairs, known = self._rows(X, y)
        made = []
        for context, place in zip(self._contexts(self.model_, pairs), _places(pairs, known), strict=True):
            tokens = None if place is None else context.tokens(place)
            view = next((one for one in context.shown if tokens is not None and one.shows(tokens)), None)
            if tokens is None or view is None:
                continue
            texts, inputs = view.encoding.sequence_ids, inputs_of(self.model_, view.encoding)
            asking = [i for i, text in enumerate(texts) if text is not None and text != texts[view.at]]
            made.append(Question(
                ids=inputs[IDS], asking=(asking[0], asking[-1] + 1), segments=inputs.get(SEGMENTS, ()),
                span=(view.place(tokens[0]), view.place(tokens[1]) + 1),
            ))  # fmt: skip
        return made

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """F1 and exact match as SQuAD's scripts count them, by 2.0 where a question has no answer."""
        pairs, known = self._rows(X, y)
        right = [one.right(context) for one, (_, context) in zip(known, pairs, strict=True)]
        version: squad.Version = "1.1" if all(right) else "2.0"
        found = squad.report(self.predict(pairs), right, version)
        both = {} if version == "1.1" else {
            "answerable": found.answerable._asdict(), "unanswerable": found.unanswerable._asdict()
        }  # fmt: skip
        return {
            "f1": found.all.f1, "exact": found.all.exact, "questions": found.all.questions,
            "rules": f"SQuAD {version}", **both,
        }  # fmt: skip

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """Mean F1 and exact match; an answer counts as right in its own spelling only."""
        exact, f1 = _compared(predicted, [Answers.of(row, self.no_answer).texts for row in y])
        return {"f1": mean_of(f1), "exact": mean_of(exact)}

    def examined(self, X: Any, y: Any) -> Examined:
        """Its answers, and whether it says that there is one where there is."""
        pairs, known = self._rows(X, y)
        answers = self.answers(pairs)
        given, right = [one["answer"] for one in answers], [one.texts for one in known]
        exact, f1 = _compared(given, right)
        read = Read.by(self.model_, pairs, reading_length(self.model_, self.max_length or LENGTH), windows=True)
        sure = np.array([self._confidence(one) for one in answers])
        mistakes = [
            Mistake(row=row, text=read.texts[row], truth=(*right[row], NONE)[0], answer=given[row] or NONE,
                    by=1 - f1[row], note=f"F1 {f1[row]:.2f}", confidence=float(sure[row]))
            for row in np.flatnonzero(exact < 1).tolist()
        ]  # fmt: skip
        there, said = (np.array([bool(one) for one in rows]) for rows in (right, given))
        one, other = (np.stack((rows, ~rows), -1) for rows in (there, said))
        return Examined(
            read=read, figures=self.figures(given, y), each=f1, measure="F1", mistakes=mistakes,
            confusion=None if there.all() and said.all() else taken_for((SOME, NONE), one, other, "questions"),
            belief=Belief(said=sure, so=exact),
            groups={"answer": [SOME if one else NONE for one in there]},
        )  # fmt: skip

    def _confidence(self, answer: Mapping[str, Any]) -> float:
        """How sure it is: of the stretch, and that there is an answer; or that there is none."""
        if not answer["answer"]:
            return float(answer["none"])
        return float(answer["probability"]) * (1.0 if self.threshold_ == NEVER else 1 - answer["none"])

    def check(self, given: Any, target: Any) -> None:
        """See that the answer stands where it is said to.

        Raises:
            ValueError: it does not.
        """
        try:
            Answers.of(target, self.no_answer).place(given[1])
        except UsageError as error:
            raise ValueError(f"{error.what}; {error.remedy}" if error.remedy else error.what) from None

    def score(self, X: Any, y: Any) -> float:
        """The first figure of :meth:`evaluate`."""
        return float(self.evaluate(X, y)["f1"])

    def learned(self) -> dict[str, Any]:
        """The threshold."""
        return {"threshold": self.threshold_}

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Take back the threshold."""
        self.threshold_ = float(learned["threshold"])

    @classmethod
    def ready(cls, model: Model, **parameters: Any) -> Self:
        """A model that already answers questions, as published; it may say that there is no answer.

        Raises:
            UsageError: its head does nothing of that kind.
        """
        if not model.head_names or model.head_names[0] not in (HEAD, SPAN_HEAD):
            raise UsageError(f"{model.spec.name} does not answer questions", remedy="train one: variorum train answer")
        made = cls(**parameters)
        made.model_, made.threshold_ = model, EVEN
        return made

    def _rows(self, X: Any, y: Any) -> tuple[list[Pair], list[Answers]]:
        pairs = texts_of(X, 2)
        rows = y.to_list() if hasattr(y, "to_list") else list(y)
        check_consistent_length(pairs, rows)
        known = []
        for number, row in enumerate(rows):
            with in_row(number):
                known.append(Answers.of(row, self.no_answer))
        return pairs, known

    def _held_out(self, pairs: Sequence[Pair]) -> set[str]:
        """Whole contexts: questions about one context are not apart from one another."""
        distinct = list(dict.fromkeys(context for _, context in pairs))
        return {distinct[i] for i in held_out(len(distinct), self.validation, self.seed)[1]}

    def _contexts(self, model: Model, pairs: Sequence[Pair]) -> list[Context]:
        length = reading_length(model, self.max_length or LENGTH)
        return contexts(model.tokenizer, pairs, Viewing(max_length=length, stride=self.stride))

    def _examples(self, model: Model, pairs: Sequence[Pair], places: Sequence[Offset | None]) -> list[Example]:
        """One for each window; it is asked for no answer where it does not show the whole of it."""
        made = []
        for context, place in zip(self._contexts(model, pairs), places, strict=True):
            tokens = None if place is None else context.tokens(place)
            for view, nothing in zip(context.shown, context.nothing, strict=True):
                target = [nothing, nothing]
                if tokens is not None and view.shows(tokens):
                    target = [view.place(token) for token in tokens]
                if model.head_names[0] == SPAN_HEAD:
                    target.append(int(target == [nothing, nothing]))
                made.append(Example(inputs=inputs_of(model, view.encoding), target=target))
        return made

    def _read(self, X: Any) -> list[tuple[Context, Said]]:
        check_is_fitted(self)
        return self._said(self.model_, texts_of(X, 2))

    def _said(self, model: Model, pairs: Sequence[Pair]) -> list[tuple[Context, Said]]:
        read = self._contexts(model, pairs)
        return list(zip(read, best_spans.read(model, read, Search(longest=self.longest)), strict=True))

    def _tuned(self, read: Sequence[tuple[Context, Said]], known: Sequence[Answers]) -> tuple[float, float]:
        """The best mean F1, and the threshold that gives it; there is none to tune where every question is answered."""
        right = [one.right(context.text) for one, (context, _) in zip(known, read, strict=True)]
        given = [_found(*one)[0].text if one[1].candidates else "" for one in read]
        quality = squad.scores(given, right)[1]
        if self.threshold_ == NEVER:
            return sum(quality) / len(quality), NEVER
        none = [said.none for _, said in read]
        return squad.best_threshold(none, quality, [bool(one) for one in right], [not one for one in given])

    def _answer(self, context: Context, said: Said) -> dict[str, Any]:
        if not said.candidates or said.none > self.threshold_:
            return {"answer": "", "start": None, "end": None, "probability": None, "none": said.none}
        best = _found(context, said)[0]
        return {"answer": best.text, "start": best.start, "end": best.end, "probability": best.probability,
                "none": said.none}  # fmt: skip


def _compared(given: Sequence[str], right: Sequence[Sequence[str]]) -> tuple[Floats, Floats]:
    """Exact match and F1 of each question [N], by the rules of SQuAD 2.0 where one has no answer."""
    exact, f1 = squad.scores(list(given), right, "1.1" if all(right) else "2.0")
    return np.array(exact), np.array(f1)


def _places(pairs: Sequence[Pair], known: Sequence[Answers]) -> list[Offset | None]:
    """Where the first answer to each question stands; how many stand nowhere is told in a warning."""
    places = []
    for number, (answers, (_, context)) in enumerate(zip(known, pairs, strict=True)):
        with in_row(number):
            places.append(answers.place(context))
    lost = sum(place is None and bool(one.texts) for place, one in zip(places, known, strict=True))
    if lost:
        warnings.warn(f"{lost} answers do not stand in their contexts and are not learned from", stacklevel=3)
    return places


def _found(context: Context, said: Said) -> list[Found]:
    scores = np.array([one.score for one in said.candidates])
    chances = np.exp(scores - scores.max(initial=-np.inf))
    places = [context.characters(one.first, one.last) for one in said.candidates]
    return [
        Found(context.text[start:end], start, end, float(chance / chances.sum()))
        for (start, end), chance in zip(places, chances, strict=True)
    ]
