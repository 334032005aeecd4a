"""How an arm comes to answer: a simple baseline, a model that is fine-tuned, a frozen body under a new head, or a model
that is only asked. An arm is said as ``WAY:MODEL``; a model alone is fine-tuned.

A way learns from labelled rows and answers others; what it keeps in a folder is enough for another process to answer
alike, which is where :mod:`variorum.study.answering` measures what an answer costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.spec.model import Model
    from variorum.tasks.estimator import Estimator
    from variorum.tasks.zero_shot import Scorer

BATCH = 32
"""Rows of a step, as the estimators have it."""
NAMED = ("classify", "pairs")
"""Kinds of task whose answers are names, which a model can be asked for."""
READ = 256
"""Tokens of a text that a model is asked about, unless it is told how many."""
Predict = Callable[[Sequence[Any]], list[Any]]


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What an arm is given to learn from.

    Attributes:
        kind: of the task. model: as :func:`variorum.tasks.start.start` takes it; empty for a baseline.
        X, y: rows and what is right for each. classes: names of the numbers in ``y``, where these are classes.
        how: parameters of the estimator.
    """

    kind: str
    model: str
    X: Sequence[Any]
    y: Sequence[Any]
    classes: tuple[str, ...] = ()
    seed: int = 0
    how: Mapping[str, Any] = field(default_factory=dict)

    def some(self, rows: int) -> Lesson:
        """One reading of so many of the rows, spread evenly: for a timed start."""
        picked = range(0, len(self.X), max(1, len(self.X) // rows))[:rows]
        X, y = ([values[i] for i in picked] for values in (self.X, self.y))
        return replace(self, X=X, y=y, how={**self.how, "epochs": 1})


class Learned(Protocol):
    """An arm that can answer."""

    @property
    def parameters(self) -> int:
        """Numbers that it holds."""

    @property
    def steps(self) -> int:
        """Of its training."""

    @property
    def seconds(self) -> float:
        """That training took."""

    @property
    def losses(self) -> tuple[float, ...]:
        """Of each epoch."""

    def answer(self, X: Sequence[Any]) -> list[Any]:
        """An answer for each row, as JSON holds it."""

    def keep(self, folder: Path) -> int:
        """Write what ``recall`` of its way reads; gives the bytes of what somebody would ship."""

    def flops(self, X: Sequence[Any]) -> int | None:
        """Forward operations of a row of mean length, by the spec; ``None`` where there is none."""


class Way(Protocol):
    """One way."""

    @property
    def note(self) -> str:
        """What it is, in words."""

    @property
    def seeded(self) -> bool:
        """Whether chance has a part in it."""

    def check(self, kind: str) -> None:
        """See that it can do tasks of this kind.

        Raises:
            UsageError: it cannot.
        """

    def steps(self, rows: int, how: Mapping[str, Any]) -> int:
        """Units of progress of a whole cell."""

    def learn(self, lesson: Lesson) -> Learned:
        """Learn."""

    def recall(self, folder: Path) -> Predict:
        """What :meth:`Learned.keep` wrote, ready to answer."""


class Simple:
    """The usual baseline of the kind of task. It is fitted in seconds and no file holds it: its rows are kept."""

    note, seeded = "simple baseline", False

    def check(self, kind: str) -> None:
        from variorum.tasks.baselines import baseline

        baseline(kind)

    def steps(self, rows: int, how: Mapping[str, Any]) -> int:
        return 1

    def learn(self, lesson: Lesson) -> Learned:
        return _Fitted(lesson)

    def recall(self, folder: Path) -> Predict:
        return _Fitted(Lesson(**json.loads((folder / "lesson.json").read_bytes()))).answer


class _Fitted:
    steps = 1
    losses: tuple[float, ...] = ()

    def __init__(self, lesson: Lesson) -> None:
        from variorum.tasks.baselines import baseline

        begun = time.perf_counter()
        self.lesson, self.simple = lesson, baseline(lesson.kind).fit(lesson.X, lesson.y)
        self.seconds = time.perf_counter() - begun
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

    def learn(self, lesson: Lesson) -> Learned:
        from variorum.tasks.registry import task

        given = {"adapt": self.adapt, "validation": 0.0, "batch_size": BATCH, **lesson.how}
        made = task(lesson.kind)(model=str(place(lesson.model)), random_state=lesson.seed, **given)
        return _Estimated(made.fit(list(lesson.X), list(lesson.y)))

    def recall(self, folder: Path) -> Predict:
        from variorum.tasks.registry import load

        return _Estimated(load(folder / "model")).answer


class _Estimated:
    def __init__(self, estimator: Estimator) -> None:
        history = estimator.history_
        self.estimator, self.steps, self.seconds = estimator, history.epochs[-1].steps, history.seconds
        self.losses = tuple(epoch.loss for epoch in history.epochs)
        self.parameters = sum(one.numel() for one in estimator.model_.parameters())

    def answer(self, X: Sequence[Any]) -> list[Any]:
        return _listed(self.estimator.predict(X))

    def keep(self, folder: Path) -> int:
        self.estimator.save(folder / "model")
        return _bytes(folder / "model")

    def flops(self, X: Sequence[Any]) -> int | None:
        model = self.estimator.model_
        lengths = [len(one.ids) for one in self.estimator.encode(model, list(X))]
        return _flops(model.spec, model.head_names, lengths)


class Asked:
    """A model that was never trained on the labels: scored as ``variorum label`` does, the leaning taken out."""

    note, seeded = "asked, not trained", False

    def check(self, kind: str) -> None:
        if kind not in NAMED:
            raise UsageError(f"a model cannot be asked for what {kind!r} wants", where="prompt",
                             remedy=f"it names labels: {', '.join(NAMED)}")  # fmt: skip

    def steps(self, rows: int, how: Mapping[str, Any]) -> int:
        return 1

    def learn(self, lesson: Lesson) -> Learned:
        return _Asking(lesson.model, lesson.classes, int(lesson.how.get("max_length") or READ))

    def recall(self, folder: Path) -> Predict:
        return _Asking(**json.loads((folder / "asked.json").read_bytes())).answer


class _Asking:
    steps, seconds = 1, 0.0
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
    "prompt": Asked(),
}
"""Every way, by the word for it."""


def read(said: str) -> tuple[str, str]:
    """The way and the model that ``WAY:MODEL`` says; a model alone is fine-tuned."""
    way, colon, model = said.partition(":")
    return (way, model) if colon and way in WAYS else ("tune", said)


def place(model: str) -> str | Path:
    """A model reference; of a run of ``variorum pretrain`` the model that it made."""
    path = Path(model)
    return path / "model" if (path / "run.json").is_file() and (path / "model").is_dir() else model


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


def _listed(found: Any) -> list[Any]:
    return list(found.tolist() if hasattr(found, "tolist") else found)


def _joined(row: Any) -> str:
    """A text, or the two of a pair one below the other."""
    return row if isinstance(row, str) else "\n".join(row)
