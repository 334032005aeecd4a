"""How an arm comes to answer: a simple baseline, a model that is fine-tuned, a frozen body under a new head, a student,
a model that writes the answer as a word, or one that is only asked. An arm is said as ``WAY:MODEL``; a model alone is
fine-tuned.

A way learns from labelled rows and answers others; what it keeps in a folder is enough for another process to answer
alike, which is where :mod:`variorum.study.answering` measures what an answer costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.errors import UsageError
from variorum.study.lesson import BATCH, Learned, Lesson, Predict, Way
from variorum.training.rundir import place

if TYPE_CHECKING:
    from variorum.spec.model import Model
    from variorum.tasks.estimator import Estimator
    from variorum.tasks.finetuning import Watch
    from variorum.tasks.zero_shot import Scorer

NAMED = ("classify", "pairs")
"""Kinds of task whose answers are names, which a model can be asked for."""
IMITATED = ("classify", "pairs", "number", "pairs-number", "tag")
"""Kinds of task that a student can be taught by a teacher."""
READ = 256
"""Tokens of a text that a model is asked about, unless it is told how many."""


class Simple:
    """The usual baseline of the kind of task. It is fitted in seconds and no file holds it: its rows are kept."""

    note, seeded = "simple baseline", False

    def check(self, kind: str) -> None:
        from variorum.tasks.baselines import baseline

        baseline(kind)

    def steps(self, rows: int, how: Mapping[str, Any]) -> int:
        return 1

    def learn(self, lesson: Lesson, watch: Watch | None = None) -> Learned:
        return _Fitted(lesson)

    def recall(self, folder: Path) -> Predict:
        return _Fitted(Lesson(**json.loads((folder / "lesson.json").read_bytes()))).answer


class _Fitted:
    steps = 1
    losses: tuple[float, ...] = ()

    def __init__(self, lesson: Lesson) -> None:
        import sklearn.feature_extraction.text
        import sklearn.linear_model
        import sklearn.svm  # noqa: F401 - before the clock starts: what is imported grows with no rows

        from variorum.tasks.baselines import baseline

        begun = time.perf_counter()
        self.lesson, self.simple = lesson, baseline(lesson.kind).fit(lesson.X, lesson.y)
        self.seconds = self.pace = time.perf_counter() - begun
        inside = list(_inside(self.simple))
        self.parameters = sum(one.coef_.size + one.intercept_.size for one in inside if hasattr(one, "coef_"))
        self.words = sum(len(word) for one in inside for word in getattr(one, "vocabulary_", ()))

    def answer(self, X: Sequence[Any]) -> list[Any]:
        return self.simple.predict(X)

    def keep(self, folder: Path) -> int:
        (folder / "lesson.json").write_text(json.dumps(asdict(self.lesson)), "utf-8")
        return 8 * self.parameters + self.words

    def flops(self, X: Sequence[Any]) -> int | None:
        return None


def _inside(thing: object) -> Iterator[Any]:
    """Everything fitted in a baseline, however deep."""
    held = thing if isinstance(thing, list | tuple) else vars(thing).values() if hasattr(thing, "__dict__") else ()
    for one in held:
        yield one
        if type(one).__module__.startswith(("sklearn.", "variorum.")) or isinstance(one, list | tuple):
            yield from _inside(one)


@dataclass(frozen=True)
class Tuned:
    """Fine-tuning of a model that is there, or of one made from nothing; ``adapt`` says what of it learns."""

    adapt: str
    note: str
    seeded: bool = True

    def check(self, kind: str) -> None:
        from variorum.tasks.registry import task

        task(kind)

    def steps(self, rows: int, how: Mapping[str, Any]) -> int:
        return int(how["epochs"]) * -(-rows // BATCH)

    def learn(self, lesson: Lesson, watch: Watch | None = None) -> Learned:
        return _Estimated(_fitted(lesson, lesson.kind, lesson.y, watch, adapt=self.adapt))

    def recall(self, folder: Path) -> Predict:
        from variorum.tasks.registry import load

        return _Estimated(load(folder / "model")).answer


def _fitted(lesson: Lesson, kind: str, y: Sequence[Any], watch: Watch | None, *, adapt: str = "full") -> Estimator:
    """An estimator of this kind, fitted to the rows of a lesson."""
    from variorum.tasks.registry import task

    given = {"adapt": adapt, "validation": 0.0, "batch_size": BATCH, **lesson.how}
    made = task(kind)(model=str(place(lesson.model)), random_state=lesson.seed, **given)
    made.__dict__["watch"] = watch  # not a parameter: a clone has none
    return made.fit(list(lesson.X), list(y))


@dataclass(frozen=True)
class Taught:
    """A student of half the layers, made after the model was fine-tuned and with its weights to begin with; of what its
    ``lesson`` consists says :data:`variorum.tasks.distil.LESSONS`."""

    lesson: str
    note: str
    seeded: bool = True

    def check(self, kind: str) -> None:
        if kind not in IMITATED:
            raise UsageError(f"no student is taught {kind!r}", where="distil",
                             remedy=f"any of {', '.join(IMITATED)}")  # fmt: skip

    def steps(self, rows: int, how: Mapping[str, Any]) -> int:
        return 2 * WAYS["tune"].steps(rows, how)

    def learn(self, lesson: Lesson, watch: Watch | None = None) -> Learned:
        from variorum.objectives.imitation import Imitating
        from variorum.tasks.distil import LESSONS, Distilling, distil

        teacher = _fitted(lesson, lesson.kind, lesson.y, watch)
        half = max(stack.depth for stack in teacher.model_.spec.architecture.stacks.values()) // 2
        how = Distilling(student=str(half), lesson=Imitating(**LESSONS[self.lesson]))
        student, before = _Estimated(distil(teacher, list(lesson.X), list(lesson.y), how)), _Estimated(teacher)
        steps = student.steps + before.steps
        student.pace = (student.pace * student.steps + before.pace * before.steps) / steps
        student.steps, student.seconds = steps, student.seconds + before.seconds
        return student

    def recall(self, folder: Path) -> Predict:
        return WAYS["tune"].recall(folder)


class _Estimated:
    def __init__(self, estimator: Estimator) -> None:
        history = estimator.history_
        self.estimator, self.steps = estimator, history.epochs[-1].steps
        self.seconds, self.pace = history.seconds, history.pace
        self.losses = tuple(epoch.loss for epoch in history.epochs)
        self.parameters = sum(one.numel() for one in estimator.model_.parameters())

    def answer(self, X: Sequence[Any]) -> list[Any]:
        return self.estimator.replies(X)

    def keep(self, folder: Path) -> int:
        self.estimator.save(folder / "model")
        return _bytes(folder / "model")

    def flops(self, X: Sequence[Any]) -> int | None:
        model = self.estimator.model_
        lengths = [len(one.ids) for one in self.estimator.encode(model, list(X))]
        return _flops(model.spec, model.head_names, lengths)


class Written:
    """An encoder-decoder that is fine-tuned to write the name of the answer (T5)."""

    note, seeded = "fine-tuned to write the label", True

    def check(self, kind: str) -> None:
        _named(kind, "text")

    def steps(self, rows: int, how: Mapping[str, Any]) -> int:
        return WAYS["tune"].steps(rows, how)

    def learn(self, lesson: Lesson, watch: Watch | None = None) -> Learned:
        words = [lesson.classes[number] for number in lesson.y]
        return _Writing(_fitted(lesson, f"{lesson.kind}-text", words, watch), lesson.classes)

    def recall(self, folder: Path) -> Predict:
        from variorum.tasks.registry import load

        return _Writing(load(folder / "model"), json.loads((folder / CLASSES).read_bytes())).answer


CLASSES = "classes.json"


class _Writing(_Estimated):
    """Answers by number, of what writes them by name."""

    def __init__(self, estimator: Estimator, classes: Sequence[str]) -> None:
        super().__init__(estimator)
        self.classes = list(classes)

    def answer(self, X: Sequence[Any]) -> list[Any]:
        return [self.classes.index(word) for word in super().answer(X)]

    def keep(self, folder: Path) -> int:
        (folder / CLASSES).write_text(json.dumps(self.classes), "utf-8")
        return super().keep(folder)


def _named(kind: str, way: str) -> None:
    """See that answers to tasks of a kind are names; raises as :meth:`Way.check`."""
    if kind not in NAMED:
        raise UsageError(f"a model cannot be asked for what {kind!r} wants", where=way,
                         remedy=f"it names labels: {', '.join(NAMED)}")  # fmt: skip


class Asked:
    """A model that was never trained on the labels: scored as ``variorum label`` does, the leaning taken out."""

    note, seeded = "asked, not trained", False

    def check(self, kind: str) -> None:
        _named(kind, "prompt")

    def steps(self, rows: int, how: Mapping[str, Any]) -> int:
        return 1

    def learn(self, lesson: Lesson, watch: Watch | None = None) -> Learned:
        return _Asking(lesson.model, lesson.classes, int(lesson.how.get("max_length") or READ))

    def recall(self, folder: Path) -> Predict:
        return _Asking(**json.loads((folder / "asked.json").read_bytes())).answer


class _Asking:
    steps, seconds, pace = 1, 0.0, 0.0
    losses: tuple[float, ...] = ()

    def __init__(self, model: str, classes: Sequence[str], read: int) -> None:
        from variorum.face import load
        from variorum.tasks.labelling.correction import Correction
        from variorum.tasks.zero_shot import Candidate, scorer

        self.reference, self.classes, self.read = model, list(classes), read
        self.model = load(str(place(model)))
        self.scorer: Scorer = scorer(self.model, [Candidate(name) for name in classes])
        self.prior = Correction().prior(self.scorer)
        self.parameters = sum(one.numel() for one in self.model.parameters())

    def answer(self, X: Sequence[Any]) -> list[Any]:
        from variorum.tasks.labelling.correction import Correction, corrected
        from variorum.tasks.labelling.examples import shortened

        texts, _ = shortened(self.model.tokenizer, [_joined(one) for one in X], self.read)
        found = corrected(self.scorer.labels, self.scorer.scores(texts), self.prior, Correction())
        return [int(one) for one in found.probabilities.argmax(1)]

    def keep(self, folder: Path) -> int:
        from variorum.hub import locate

        asked = {"model": self.reference, "classes": self.classes, "read": self.read}
        (folder / "asked.json").write_text(json.dumps(asked), "utf-8")
        return _bytes(locate(str(place(self.reference))))

    def flops(self, X: Sequence[Any]) -> int | None:
        """Of a text and the labels; the words around them are read once for all texts."""
        tokenizer = self.model.tokenizer
        labels = sum(len(one.ids) for one in tokenizer.encode_batch(self.classes, specials=False))
        lengths = [min(self.read, len(one.ids)) + labels for one in tokenizer.encode_batch([_joined(x) for x in X])]
        return _flops(self.model.spec, self.model.head_names, lengths)


WAYS: Mapping[str, Way] = {
    "baseline": Simple(),
    "tune": Tuned("full", "fine-tuned"),
    "head": Tuned("head", "its body frozen under a new head"),
    "lora": Tuned("lora", "fine-tuned by low-rank adapters"),
    "distil": Taught("both", "half of its layers, taught by it and by the labels"),
    "distil-soft": Taught("soft", "half of its layers, taught by it alone"),
    "distil-hard": Taught("hard", "half of its layers, taught by the labels alone"),
    "text": Written(),
    "prompt": Asked(),
}
"""Every way, by the word for it."""


def read(said: str) -> tuple[str, str]:
    """The way and the model that ``WAY:MODEL`` says; a model alone is fine-tuned."""
    way, colon, model = said.partition(":")
    return (way, model) if colon and way in WAYS else ("tune", said)


def spec_of(model: str) -> Model:
    """The spec of a model reference, without its weights.

    Raises:
        NotFound: no such model.
    """
    from variorum.checkpoint.source import read_spec
    from variorum.family import find
    from variorum.hub import locate
    from variorum.spec.small import SCALES, scaled

    scale, _, name = model.partition(":")
    if scale in SCALES and "/" not in name:
        return scaled(find(name or "bert"), SCALES[scale])
    return read_spec(locate(str(place(model))))


def _flops(spec: Model, heads: Sequence[str], lengths: Sequence[int]) -> int:
    from variorum.spec.size import size

    return size(spec, head=heads, context=max(1, round(sum(lengths) / max(1, len(lengths))))).forward_flops


def _bytes(path: Path) -> int:
    return sum(one.stat().st_size for one in ([path] if path.is_file() else path.rglob("*")) if one.is_file())


def _joined(row: Any) -> str:
    """A text, or the two of a pair one below the other."""
    return row if isinstance(row, str) else "\n".join(row)
