"""A study in the words of the command line or of a study file, which are the same, and what they come to.

::

    title = "Does RoPE help?"
    arms = ["gpt2", "gpt2+architecture.decoder.positions=Rotary"]     # or walk = "gpt2..llama", or ablate, or grid
    budget = "300steps"
    claims = ["rotary beats gpt2"]

With ``models`` it is a bake-off on labelled rows instead::

    models = ["nano", "sentence-transformers/all-MiniLM-L6-v2"]
    data = "mails.csv"

What was asked is kept in the study's folder, so that the study can be extended.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from variorum.errors import AccessError, DamagedFile, NotFound, UsageError, nearest
from variorum.files import write_whole
from variorum.spec.small import scale_named
from variorum.study import arms as making
from variorum.study import labelled, pretraining
from variorum.study.budgets import budget_of, matched
from variorum.study.choosing import Ceilings, ceilings
from variorum.study.design import Arm
from variorum.study.mistyped import noisy
from variorum.study.pretraining import Texts, Wanted
from variorum.study.session import ANY, Declared, Limits
from variorum.text.stream import Source
from variorum.training.wishes import Wishes

LANGUAGE = ("masked_lm", "causal_lm", "permutation_lm", "seq2seq_lm", "replaced_token", "next_sentence",
            "sentence_order", "bidirectional_lm")  # fmt: skip
"""Heads that texts alone train."""
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One way to name the arms, and what they are given.

    Attributes:
        arms: specs, each with changes of its own behind ``+``. walk: ``A..B``. ablate: ``A..B:PATH``.
        grid: path to values, over the one model of ``arms``.
        scale: sizes of every arm; "" leaves them as published.
        match: "width" or "depth" gives every arm the first one's parameters.
        probe: judge arms by labelled rows that each learns after its pretraining: a table with the columns text and
            label, or ``snippets``, the shipped ones by domain; arms of any objectives can be compared so.
        rates: learning rates that every arm tries before it is trained; one rate for all if there are none.
        latency, memory: the most that an arm which is recommended may take: ``20ms``, ``500MB``.
        judged_length: tokens of a held-out row, where that is not the length of a training row.
        training: fields of :class:`~variorum.training.wishes.Wishes`.
    """

    title: str = ""
    question: str = ""
    arms: tuple[str, ...] = ()
    walk: str = ""
    ablate: str = ""
    grid: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    set: tuple[str, ...] = ()
    scale: str = "nano"
    match: Literal["", "width", "depth"] = ""
    data: tuple[str, ...] = ("austen",)
    validation: float = 0.1
    tokenizer: str = ""
    vocab: int = 2048
    budget: str = "300steps"
    seeds: int = 5
    looks: tuple[int, ...] = ()
    claims: tuple[str, ...] = ()
    recipes: Literal["shared", "own"] = "shared"
    probe: str = ""
    rates: tuple[float, ...] = ()
    latency: str = ""
    memory: str = ""
    judged_length: int = 0
    training: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def ceilings(self) -> Ceilings:
        """Above which an arm is not recommended."""
        return ceilings(self.latency, self.memory)

    def declare(self, out: Path, *, limits: Limits = ANY, keep: bool = True, say: Say) -> Declared:
        """The study that is meant, in ``out``; what :func:`variorum.study.pretraining.declare` raises."""
        return pretraining.declare(self.wanted(), out, limits=limits, keep=keep, say=say)

    def wanted(self) -> Wanted:
        """The study that is meant.

        Raises:
            UsageError: no way to name the arms, or several, or a value that makes no sense. NotFound: no such model.
        """
        made, left = self._arms()
        if len(made) < 2:
            raise UsageError("a study compares two arms at least", where="--arms")
        if self.match:
            made = (made[0], *(self._matched(arm, made[0]) for arm in made[1:]))
        known = [field.name for field in dataclasses.fields(Wishes)]
        for name in self.training:
            if name not in known:
                raise UsageError(f"training has no {name!r}", where="study", remedy=nearest(name, known))
        shown = " and ".join(arm.title for arm in (made if len(made) < 4 else made[:1]))
        question = self.question or "Which lowers the loss of held-out text, within one budget?"
        texts = Texts(
            sources=tuple(Source(place=place) for place in self.data), like=self._first(), validation=self.validation,
            tokenizer=self.tokenizer, vocab=self.vocab,
        )  # fmt: skip
        title = self.title or (shown if len(made) < 4 else f"From {shown} on")
        return Wanted(
            title=title, question=question, arms=made, texts=texts, budget=budget_of(self.budget), seeds=self.seeds,
            looks=self.looks, claims=self.claims, against="before" if self.walk else "first", recipes=self.recipes,
            wishes=Wishes(**self.training), left=left,
            probe=labelled.rows(self.probe, train=3000, test=1500) if self.probe else None, rates=self.rates,
            matched=self.match, priced=self.ceilings != Ceilings(), judged_length=self.judged_length,
        )  # fmt: skip

    def _arms(self) -> tuple[tuple[Arm, ...], tuple[str, ...]]:
        ways = {"--arms": bool(self.arms), "--walk": bool(self.walk), "--ablate": bool(self.ablate)}
        if sum(ways.values()) != 1:
            raise UsageError("arms are named in one way", where="study", remedy=f"give one of {', '.join(ways)}")
        heads = (*LANGUAGE, "sequence_classification") if self.probe else LANGUAGE
        fit = making.fitting(scale_named(self.scale) if self.scale else None, heads)
        if self.walk:
            start, end = _ends(self.walk, "--walk")
            walked = making.walk(start, end, fit)
            return walked.arms, walked.left
        if self.ablate:
            pair, _, row = self.ablate.partition(":")
            return making.ablate(*_ends(pair, "--ablate"), row, fit), ()
        if self.grid:
            if len(self.arms) != 1:
                raise UsageError("a grid is over one model", where="--grid", remedy="give one with --arms")
            return making.grid(self.arms[0], self.grid, fit, set=self.set), ()
        return making.named(self.arms, fit, set=self.set), ()

    def _first(self) -> str:
        """The model in whose way a vocabulary is learned."""
        if self.walk or self.ablate:
            return _ends((self.walk or self.ablate).partition(":")[0], "")[0]
        return self.arms[0].rpartition(": ")[2].partition("+")[0]

    def _matched(self, arm: Arm, like: Arm) -> Arm:
        assert arm.spec is not None and like.spec is not None
        made = matched(arm.spec, like.spec, "depth" if self.match == "depth" else "width")
        return dataclasses.replace(arm, spec=made)


@dataclass(frozen=True, kw_only=True)
class BakeOff:
    """Models on labelled rows.

    Attributes:
        models: arms beside the baseline, each ``[TITLE: ][WAY:]MODEL``.
        data: a table, or ``snippets``. columns: of the table, by what they hold. document: the column that says which
            rows belong together. sample: so many of its rows alone, spread evenly; all if 0.
        noise: the share of letters that are mistyped in the rows held out.
        epochs, learning_rate, max_length, precision: of every arm that learns. rates: that each of them tries.
        latency, memory: the most that an arm which is recommended may take.
    """

    title: str = ""
    question: str = ""
    models: tuple[str, ...] = ()
    data: str = labelled.SHIPPED
    task: str = "classify"
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    document: str = ""
    sample: int = 0
    noise: float = 0.0
    seeds: int = 5
    looks: tuple[int, ...] = ()
    claims: tuple[str, ...] = ()
    epochs: int = 3
    learning_rate: float = 5e-5
    max_length: int = 128
    precision: Literal["float32", "bfloat16"] = "float32"
    rates: tuple[float, ...] = ()
    latency: str = ""
    memory: str = ""

    @property
    def ceilings(self) -> Ceilings:
        """Above which an arm is not recommended."""
        return ceilings(self.latency, self.memory)

    def declare(self, out: Path, *, limits: Limits = ANY, keep: bool = True, say: Say) -> Declared:
        """The study that is meant, in ``out``; what :func:`variorum.study.labelled.declare` raises."""
        wanted = labelled.Wanted(
            models=self.models, seeds=self.seeds, looks=self.looks, epochs=self.epochs,
            learning_rate=self.learning_rate, max_length=self.max_length, precision=self.precision,
            rates=self.rates, title=self.title, claims=self.claims,
            **({"question": self.question} if self.question else {}),
        )  # fmt: skip
        return labelled.declare(wanted, self.rows(say), out, limits=limits, keep=keep)

    def rows(self, say: Say) -> labelled.Rows:
        """The rows that are meant; those that cannot be used are told.

        Raises:
            UsageError: no table is named. What reading it raises.
        """
        if not self.data:
            raise UsageError("this study needs a table of your own", where="--data", remedy=f"of the kind {self.task}")
        asked = labelled.Asked(data=self.data, kind=self.task, names=self.columns, document=self.document or None)
        rows = labelled.shipped() if self.data == labelled.SHIPPED else labelled.table(asked, say=say)
        rows = rows.some(self.sample) if self.sample else rows
        return dataclasses.replace(rows, test=noisy(rows.test, self.noise)) if self.noise else rows


Told = Asked | BakeOff
KINDS: Mapping[str, type[Asked] | type[BakeOff]] = {"pretraining": Asked, "bake-off": BakeOff}


def read(path: Path) -> Told:
    """A study file.

    Raises:
        NotFound, AccessError: it cannot be read. DamagedFile: it is no TOML. UsageError: it says what no study knows.
    """
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound("no such study file", where=str(path), remedy="see variorum study list") from None
    except OSError as error:
        raise AccessError(error.strerror or "cannot be read", where=str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DamagedFile(f"no study file: {error}", where=str(path)) from None
    return asked(told, where=str(path))


def asked(told: Mapping[str, Any], *, where: str) -> Told:
    """What a table of settings says: a bake-off where it names models, else a study of pretraining.

    Raises:
        UsageError: an unknown name, or a value of another kind.
    """
    return changed(BakeOff() if "models" in told else Asked(), told, where=where)


def changed(before: Told, told: Mapping[str, Any], *, where: str) -> Told:
    """``before`` with other settings; raises as :func:`asked`."""
    usual = {field.name: getattr(type(before)(), field.name) for field in dataclasses.fields(before)}
    return dataclasses.replace(before, **{name: _as(value, usual, name, where) for name, value in told.items()})


def _as(value: Any, usual: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in usual:
        raise UsageError(f"this study has no {name!r}", where=where, remedy=nearest(name, usual))
    wanted = type(usual[name])
    if wanted is tuple and isinstance(value, list):
        return tuple(value)
    if wanted is float and type(value) is int:
        return float(value)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise UsageError(f"{name} is a {type(value).__name__}, not a {wanted.__name__}", where=where)
    return value


KEPT = "study.json"


def keep(told: Told, folder: Path) -> None:
    """Write down in ``folder`` what was asked, so that it can be extended."""
    kind = next(name for name, one in KINDS.items() if isinstance(told, one))
    write_whole(folder / KEPT, json.dumps({"kind": kind, **dataclasses.asdict(told)}, indent=1).encode())


def kept(folder: Path) -> Told:
    """What was asked in ``folder``.

    Raises:
        NotFound: no study was run there. DamagedFile: the note is not what was written.
    """
    path = folder / KEPT
    try:
        told = json.loads(path.read_bytes())
        return changed(KINDS[told.pop("kind")](), told, where=str(path))
    except FileNotFoundError:
        raise NotFound("no study was run here", where=str(folder), remedy="run one: variorum study run") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, UsageError) as error:
        raise DamagedFile(f"not what a study writes: {error}", where=str(path)) from None


def _ends(text: str, where: str) -> tuple[str, str]:
    start, dots, end = text.partition("..")
    if not dots or not start or not end:
        raise UsageError(f"{text!r} leads nowhere", where=where, remedy="write A..B")
    return start, end
