"""What every task's estimator shares: scikit-learn's protocol, the model under it, and saving without pickles.

A subclass is a dataclass whose fields are its parameters. It says which columns of a table it reads, how it fits, and
what it answers; see :mod:`variorum.tasks.classify` for the shortest one. Fitted attributes end in an underscore.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from variorum.errors import DamagedFile, UsageError
from variorum.tasks import adapt, card, profile
from variorum.tasks.finetuning import Epoch, FineTuning, History, Judge, Watch, fine_tune
from variorum.tasks.registry import STATE
from variorum.tasks.start import LENGTH, Wanted, start

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from variorum.face import Model
    from variorum.objectives.base import Objective
    from variorum.tasks.examined import Examined
    from variorum.tasks.examples import Collate, Example
    from variorum.tasks.metrics.intervals import Figure

LONGEST = 512
"""Tokens of a text that are read where neither the model nor its user says how many."""
FORMAT = 1


class Columns(NamedTuple):
    """The columns of a table that a task reads: what it is given, and what it is asked for (empty for nothing).

    ``optional`` says that an empty cell of the target is an answer too; ``shared`` is the place of the input that many
    rows have in common, so that such rows are not apart.
    """

    inputs: tuple[str, ...] = ("text",)
    target: str = "label"
    optional: bool = False
    shared: int | None = None


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Estimator(BaseEstimator):
    """A task that a model learns.

    Args:
        model: a directory, a GGUF file, a spec's name or org/name in the cache; or ``nano`` for a small BERT made from
            nothing, as :func:`variorum.tasks.start.start` has it.
        max_length: tokens of a text that are read; what the model takes if absent, and at most 512.
        epochs, batch_size, learning_rate, warmup, weight_decay, patience: see :class:`FineTuning`.
        adapt: which parameters learn: ``full``, ``head``, ``freeze:6``, ``decay:0.9``, ``lora:rank=16``; see
            :func:`variorum.tasks.adapt.read`.
        checkpoints: a folder for snapshots after each epoch, by seed: the same fit, killed, goes on from there.
        validation: share of the rows that is held out to choose the best epoch and to tune decisions; 0 for none.
        random_state: of first values, the split, the order of rows and dropout.
        device: where the model is.
        precision: of the products while it learns; see :class:`FineTuning`.
        verbose: 1 tells of every epoch on stderr.
    """

    kind: ClassVar[str]
    columns: ClassVar[Columns] = Columns()
    watch: ClassVar[Watch | None] = None
    """Who is told of every step, where nobody reads along."""

    model: str = dataclasses.field(default="nano", kw_only=False)
    max_length: int | None = None
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    patience: int = 0
    adapt: str = "full"
    checkpoints: str = ""
    validation: float = 0.1
    random_state: Any = 0
    device: str = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    verbose: int = 0

    model_: Model = dataclasses.field(init=False)
    history_: History = dataclasses.field(init=False)
    names_: dict[str, str] = dataclasses.field(init=False)  # of the table's columns, by what they hold
    figures_: dict[str, Any] = dataclasses.field(init=False)  # from rows that were neither learned from nor held out
    profile_: profile.Profile = dataclasses.field(init=False)

    # What a task says.

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from texts and their answers."""
        raise NotImplementedError

    def predict(self, X: Any) -> Any:
        """What is answered to each input, in order."""
        raise NotImplementedError

    def replies(self, X: Any) -> list[Any]:
        """What of each input is held against what is right, as JSON has it: what :meth:`predict` gives."""
        found = self.predict(X)
        return list(found.tolist() if hasattr(found, "tolist") else found)

    def right(self, X: Any, y: Any) -> Any:
        """What :meth:`replies` to ``X`` are held against."""
        return y

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """What the task says of each input, in order, as the fields that ``variorum predict`` writes."""
        raise NotImplementedError

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """Figures that compare :meth:`answers` with what is right, the most important one first."""
        raise NotImplementedError

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """Those of :meth:`evaluate` that split by items, so that they can be resampled, of replies held against ``y``.

        The first is the first of :meth:`evaluate`; there is none where that does not split.
        """
        return {}

    def figures_on(self, X: Any, y: Any) -> dict[str, Figure]:
        """:meth:`figures` of what it replies to ``X``."""
        return self.figures(self.replies(X), self.right(X, y))

    def examined(self, X: Any, y: Any) -> Examined:
        """What it made of rows whose answers are known, as a report shows it."""
        raise NotImplementedError

    def answering(self) -> AbstractContextManager[None]:
        """While it lasts, the model carries the head that answers: a head without weights is not always there."""
        return nullcontext()

    def begun(self, y: Any) -> None:
        """Take from the answers what must be known of them before any is learned: classes, a scheme, a scale."""

    @classmethod
    def target(cls, cell: str) -> Any:
        """What ``y`` holds for a cell of the target's column.

        Raises:
            ValueError: the cell says none, and why.
        """
        return cell

    def check(self, given: Any, target: Any) -> None:
        """See that what a row gives and what it is asked for belong together, and can be learned or judged.

        Raises:
            ValueError: they do not, and why.
        """

    def learned(self) -> dict[str, Any]:
        """What it knows beyond its model and parameters, as JSON holds it."""
        return {}

    def beside(self) -> dict[str, bytes]:
        """Further files of a saved model, for other readers, by name."""
        return {}

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Take back what :meth:`learned` gave."""

    # What tasks are made of.

    def started(self, head: str | None, texts: Sequence[str], **wanted: Any) -> Model:
        """The model to fine-tune; ``wanted`` are fields of :class:`~variorum.tasks.start.Wanted`."""
        length = LENGTH if self.max_length is None else self.max_length
        return start(
            self.model, Wanted(head=head, seed=self.seed, device=self.device, length=length, **wanted), texts
        )  # fmt: skip

    def tune(
        self, model: Model, objective: Objective, examples: Sequence[Example], collate: Collate,
        judge: Judge | None = None,
    ) -> None:  # fmt: skip
        """Fine-tune as the parameters say; sets ``model_`` and ``history_``."""
        from variorum.training.progress import Progress

        how = self.how
        progress = Progress("step", how.steps(len(examples))) if self.verbose else None
        self.history_ = fine_tune(
            model, objective, examples, collate, how, judge=judge, watch=progress or self.watch,
            say=None if progress is None else _say(progress),
        )  # fmt: skip
        self.model_ = model

    @property
    def how(self) -> FineTuning:
        """The parameters as the engine takes them."""
        return FineTuning(
            epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate, warmup=self.warmup,
            weight_decay=self.weight_decay, patience=self.patience, adapt=adapt.read(self.adapt), seed=self.seed,
            device=self.device, precision=self.precision,
            checkpoints=self.checkpoints and f"{self.checkpoints}/seed-{self.seed}",
        )  # fmt: skip

    @property
    def seed(self) -> int:
        """The number that ``random_state`` stands for."""
        state = self.random_state
        if state is None or isinstance(state, np.random.RandomState):
            return int(check_random_state(state).randint(2**31))
        return int(state)

    def encode(self, model: Model, texts: Sequence[Any]) -> list[Any]:
        """Encodings of texts or pairs of texts, cut to what is read of them; none is empty."""
        from variorum.inference.encode import tokenizer_of

        tokenizer, limit = tokenizer_of(model), self.limit(model)
        spare = next((one for one in (tokenizer.eos_id, tokenizer.pad_id, tokenizer.unk_id) if one is not None), 0)
        found = tokenizer.encode_batch(texts, max_length=limit)
        return [one if one.ids else _single(one, spare) for one in found]

    def limit(self, model: Model) -> int:
        """The most tokens of a text that are read."""
        from variorum.inference.encode import longest_input, tokenizer_of

        limits = (self.max_length, longest_input(model), tokenizer_of(model).model_max_length)
        return min(one for one in (*limits, None if self.max_length else LONGEST) if one)

    def observe(self, X: Any) -> None:
        """Remember what held-out inputs and the answers to them look like: what ``variorum monitor`` compares with.

        Raises:
            UsageError: they are too few.
        """
        from variorum.tasks.signals import signals

        self.profile_ = profile.Profile.of(signals(self, X))

    # Saved and restored.

    def save(self, directory: str | Path) -> None:
        """Write the published layout, with ``variorum.json`` and a card; :func:`variorum.tasks.load` reads it.

        Raises:
            UsageError: the directory holds something else.
        """
        from variorum.checkpoint import save

        check_is_fitted(self)
        state = {"kind": self.kind, "format": FORMAT, "parameters": self._plain(), "learned": self.learned()}
        for name in ("history_", "names_", "figures_"):
            if hasattr(self, name):
                value = getattr(self, name)
                state[name.removesuffix("_")] = dataclasses.asdict(value) if name == "history_" else value
        content = json.dumps(state, indent=2, ensure_ascii=False).encode() + b"\n"
        beside = {**self.beside(), STATE: content, card.NAME: card.of(self).encode()}
        if hasattr(self, "profile_"):
            beside[profile.FILE] = self.profile_.to_bytes()
        save(self.model_, directory, beside=beside)

    @classmethod
    def restored(cls, directory: Path, state: Mapping[str, Any], *, device: str = "cpu") -> Self:
        """What :meth:`save` wrote.

        Raises:
            DamagedFile: it is of another kind, or does not fit its model.
        """
        from variorum.face import load

        known = {field.name for field in dataclasses.fields(cls) if field.init}
        try:
            if state["format"] != FORMAT:
                raise ValueError(f"format {state['format']}")
            given = {name: value for name, value in state["parameters"].items() if name in known}
            made = cls(**given | {"device": device})
            made.model_ = load(directory, device=device)
            made.recall(state["learned"])
            if "history" in state:
                made.history_ = _history(state["history"])
            made.names_, made.figures_ = state.get("names", {}), state.get("figures", {})
            if (directory / profile.FILE).is_file():
                made.profile_ = profile.read(directory)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedFile(
                f"cannot be read ({type(error).__name__}: {error})", where=str(directory / STATE)
            ) from None
        return made

    def _plain(self) -> dict[str, Any]:
        """The parameters that JSON holds; others are what they are by default when it is read again."""
        kinds = (str, int, float, bool, type(None))
        found = {name: list(v) if isinstance(v, tuple) else v for name, v in self.get_params(deep=False).items()}
        return {name: value for name, value in found.items() if isinstance(value, (*kinds, list, dict))}

    def __getstate__(self) -> dict[str, Any]:
        """For other processes: a fitted model travels as the files that it is saved as."""
        state = dict(super().__getstate__())
        if "model_" in state:
            with tempfile.TemporaryDirectory(prefix="variorum-") as place:
                state.pop("model_")
                self.save(Path(place) / "model")
                root = Path(place) / "model"
                files = (one for one in root.rglob("*") if one.is_file())
                state["files_"] = {one.relative_to(root).as_posix(): one.read_bytes() for one in files}
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        from variorum.face import load

        given = dict(state)
        files = given.pop("files_", None)
        super().__setstate__(given)
        if files is not None:
            with tempfile.TemporaryDirectory(prefix="variorum-") as place:
                for name, content in files.items():
                    (Path(place) / name).parent.mkdir(exist_ok=True)
                    (Path(place) / name).write_bytes(content)
                self.model_ = load(Path(place), device=self.device)

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in vars(self)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.non_deterministic = False
        return tags


def texts_of(X: Any, texts: Literal[1, 2] = 1) -> list[Any]:
    """Texts, or pairs of them, from a list, an array or a column of a frame.

    Raises:
        UsageError: something that is no text, with its place.
        ValueError: another shape.
    """
    rows = X.to_numpy() if hasattr(X, "to_numpy") else X
    if isinstance(rows, str | bytes) or not hasattr(rows, "__len__"):
        raise ValueError(f"expected a list of texts, got {type(X).__name__}")
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and texts == 1:
        if rows.shape[1] != 1:
            raise ValueError(f"expected one text a row, got {rows.shape[1]} columns")
        rows = rows[:, 0]
    found = [str(row) if isinstance(row, str) else row if texts == 1 else tuple(row) for row in rows]
    for number, row in enumerate(found):
        for one in (row,) if texts == 1 else row:
            if not isinstance(one, str):
                raise UsageError(f"expected text, got {type(one).__name__}", where=f"row {number + 1}")
        if texts == 2 and len(row) != 2:
            raise ValueError(f"expected two texts, got {len(row)} in row {number + 1}")
    if not found:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return found


def held_out(count: int, share: float, seed: int, classes: Sequence[Any] | None = None) -> tuple[list[int], list[int]]:
    """Numbers of the rows to learn from, and of those held out; each class by its share where there is enough of it.

    Raises:
        UsageError: a share that is none.
    """
    if not 0 <= share < 1:
        raise UsageError(f"validation is {share}", where="validation", remedy="give a share from 0 to below 1")
    from sklearn.model_selection import train_test_split

    size = round(count * share)
    if not size:
        return list(range(count)), []
    kinds = None if classes is None else np.unique(np.asarray(classes), return_counts=True)[1]
    fits = kinds is not None and kinds.min() >= 2 and len(kinds) <= min(size, count - size)
    train, held = train_test_split(
        np.arange(count), test_size=size, random_state=seed, stratify=classes if fits else None
    )
    return sorted(train.tolist()), sorted(held.tolist())


def _history(state: Mapping[str, Any]) -> History:
    return History(**{**state, "epochs": tuple(Epoch(**one) for one in state["epochs"])})


def _single(encoding: Any, token: int) -> Any:
    """An encoding without a token, with one."""
    return dataclasses.replace(
        encoding, ids=[token], type_ids=[0], offsets=[(0, 0)], tokens=[""], special_mask=[1], sequence_ids=[None]
    )


def _say(progress: Any) -> Any:
    import sys

    def say(line: str) -> None:
        progress.close()
        print(line, file=sys.stderr, flush=True)

    return say
