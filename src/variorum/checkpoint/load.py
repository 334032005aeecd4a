"""Read a published directory: map the files, check every key, assign. Nothing is left at random."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from variorum.builder import assign, empty, initial
from variorum.checkpoint import files, int8
from variorum.checkpoint.config import heads_of, label_names, read_config
from variorum.checkpoint.gguf_tensors import GgufTensors
from variorum.checkpoint.source import Source, open_source, open_tensors
from variorum.checkpoint.weights import Step, plan
from variorum.errors import DamagedFile, UsageError, nearest
from variorum.model import Model
from variorum.parts.embeddings import keep_table
from variorum.parts.positions import sinusoids
from variorum.spec.dialect import Dialect
from variorum.spec.heads import Problem, SequenceHead
from variorum.spec.inventory import constants
from variorum.spec.model import Model as Spec
from variorum.spec.paths import lookup
from variorum.spec.positions import Sinusoidal

AUTO = "auto"


@dataclasses.dataclass
class Origin:
    """Where a model came from, kept so that saving writes the same keys.

    ``verified`` is True when every file matched its recorded sha256, False when nothing was recorded.
    ``unused`` maps ignored on-disk names to the reason; ``fresh`` lists parameters that the file did not hold;
    ``tables`` holds what the file stores and the spec computes; ``absent`` lists constants that the file left out.
    ``generation``, ``published`` and ``pooling`` are those of :class:`variorum.checkpoint.source.Source`; ``asked`` is
    the spec by whose name it was asked for, which may know what the files do not say (a prompt).
    """

    directory: Path
    dialect: Dialect
    config: Mapping[str, Any]
    prefix: str
    verified: bool
    older: dict[str, str] = dataclasses.field(default_factory=dict)
    duplicates: dict[str, str] = dataclasses.field(default_factory=dict)
    unused: dict[str, str] = dataclasses.field(default_factory=dict)
    fresh: tuple[str, ...] = ()
    tables: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    absent: tuple[str, ...] = ()
    generation: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    published: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pooling: str | None = None
    asked: Spec | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fresh:
    """How the first head may start from nothing.

    Attributes:
        labels: names of the classes it shall tell apart; as many as the config says, without names, if absent. A head
            on disk that tells exactly these apart is kept; another one is not read.
        problem: what its labels are, where it judges whole sequences.
        seed: with each tensor's name and shape, decides its initial value.
    """

    labels: tuple[str, ...] = ()
    problem: Problem = "single_label"
    seed: int = 0

    def spec(self, spec: Spec, head: str) -> Spec:
        """``spec`` whose head ``head`` tells these labels apart."""
        at = f"architecture.heads.{head}"
        values: dict[str, object] = {f"{at}.labels": len(self.labels)} if self.labels else {}
        if self.labels and isinstance(spec.architecture.heads.get(head), SequenceHead):
            values[f"{at}.problem"] = self.problem
        return spec.set(values)


def load(
    directory: str | Path, *, head: str | Sequence[str] | None = AUTO, dtype: str | torch.dtype | None = "float32",
    device: str = "cpu", backend: str = "auto", fresh_head: bool | Fresh = False, tokenizer: bool = True,
    kind: type[Model] = Model,
) -> Model:  # fmt: skip
    """A published model in ``eval()``.

    Args:
        directory: holds config.json and safetensors; or a GGUF file.
        head: one head, several, ``None`` for hidden states; by default what the directory says.
        dtype: what weights are converted to; ``None`` keeps the file's.
        fresh_head: let the head (never the backbone) be missing and start it fresh; a :class:`Fresh` says how.
        tokenizer: also load the tokenizer where the directory has one.

    Raises:
        NotFound: no such directory, file or head.
        DamagedFile: a file is damaged, or a tensor missing, unexpected, misshapen or not finite.
        AccessError: only pickles are there.
    """
    source = open_source(Path(directory))
    config = source.config
    spec, dialect = read_config(config, source.where)
    heads = heads_of(config, dialect) if head == AUTO else (head,) if isinstance(head, str) else tuple(head or ())
    spec = _as_held(spec, dialect, heads, source)
    names, fresh = label_names(config), Fresh() if fresh_head is True else fresh_head or None
    if fresh is not None and fresh.labels and heads:
        spec, names = fresh.spec(spec, heads[0]), fresh.labels
    model = _empty(spec, heads, kind, source.where)
    origin = Origin(source.place, dialect, config, "", source.verified, generation=source.generation,
                    published=source.published, pooling=source.pooling)  # fmt: skip
    assign(model, read_weights(spec, heads, origin, fresh=fresh, dtype=dtype, device=device))
    for name, table in origin.tables.items():
        path = dialect.tables[name.removeprefix(origin.prefix)]
        keep_table(model.get_submodule(path.rpartition(".")[0]), _placed(table, dtype, device))
    model.origin, model.backend, model.label_names = _as_now(origin, heads), backend, names
    if tokenizer:
        model.tokenizer = _tokenizer(source, spec)
    return model.eval()


def _as_held(spec: Spec, dialect: Dialect, heads: tuple[str, ...], source: Source) -> Spec:
    """The bare model without its pooler where the files hold none, as sentence encoders are often published."""
    named = [rule.disk for rule in dialect.rules if rule.ours[0].startswith("pooler.")]
    if heads or spec.architecture.pooler is None or not named:
        return spec
    with open_tensors(source.place) as held:
        absent = not any(pooler in name for name in held.shapes for pooler in named)
    return spec.set({"architecture.pooler": None}) if absent else spec


def _as_now(origin: Origin, heads: tuple[str, ...]) -> Origin:
    """``origin`` as saving needs it: what holds a fresh head is laid out as published with such a head."""
    prefix = origin.dialect.prefix_of(heads)
    if not any(name.startswith("heads.") for name in origin.fresh) or prefix == origin.prefix:
        return origin
    tables = {prefix + name.removeprefix(origin.prefix): table for name, table in origin.tables.items()}
    return dataclasses.replace(origin, prefix=prefix, older={}, duplicates={}, absent=(), tables=tables)


def _empty(spec: Spec, heads: tuple[str, ...], kind: type[Model], where: str) -> Model:
    """The model without storage; a config may hold values of the right kind that no part of a model takes."""
    try:
        return empty(spec, heads, kind=kind)
    except (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise DamagedFile(
            f"its values make no model ({type(error).__name__}: {str(error)[:100]})", where=where
        ) from error


def read_weights(
    spec: Spec, heads: Sequence[str], origin: Origin, *, fresh: Fresh | None = None,
    dtype: str | torch.dtype | None = None, device: str = "cpu",
) -> dict[str, Tensor]:  # fmt: skip
    """Canonical name -> tensor for all that ``spec`` with ``heads`` holds, as views of the files where possible.

    ``origin`` says where and in which dialect to read; what was found there is noted in it. What ``dtype`` or
    ``device`` make a copy of is copied one tensor after the other, and its file's memory given back.

    Raises:
        NotFound: no weights there.
        DamagedFile: a tensor is missing, unexpected, misshapen, not finite, or wanted twice.
    """
    is_int8 = int8.check(origin.config, str(origin.directory))
    held = int8.Int8Files(origin.directory) if is_int8 else open_tensors(origin.directory)
    reading = _Reading(held, spec, tuple(heads), origin, fresh)
    return _values(reading, lambda value: _placed(value, dtype, device))


def _placed(value: Tensor, dtype: str | torch.dtype | None, device: str) -> Tensor:
    kind = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    return value.to(device=device, dtype=kind if value.is_floating_point() else None)


def _tokenizer(source: Source, spec: Spec) -> Any:
    from variorum.text import check_vocabulary

    tokenizer = source.tokenizer()
    if tokenizer is None:
        return None
    try:
        check_vocabulary(tokenizer, spec.architecture.vocab)
    except DamagedFile as error:
        raise DamagedFile(f"{error.what} ({error.where})", where=str(source.place), remedy=error.remedy) from error
    return tokenizer


@dataclasses.dataclass
class _Reading:
    """One pass over the files, checked key by key."""

    source: files.TensorFiles | int8.Int8Files | GgufTensors
    spec: Spec
    heads: tuple[str, ...]
    origin: Origin
    fresh: Fresh | None

    @property
    def other_head(self) -> bool:
        """Whether the first head is to tell other labels apart than the one that may be on disk."""
        labels = self.fresh.labels if self.fresh is not None else ()
        return bool(labels) and label_names(self.origin.config) != labels

    def __post_init__(self) -> None:
        self.dialect = self.origin.dialect = self._spelt(self.origin.dialect)
        self.disk = {self._modern(name): name for name in self.source.shapes}
        known = (self.dialect.prefix_of(self.heads), self.dialect.prefix, *self.dialect.prefixes.values())
        found = (p for p in known if p and any(name.startswith(p) for name in self.disk))
        self.origin.prefix = next(found, "")

    def _spelt(self, dialect: Dialect) -> Dialect:
        """The layout of this type that the file's names show."""
        for pattern, other in dialect.by_name.items():
            if any(re.search(pattern, name) for name in self.source.shapes):
                return other
        return dialect

    def _modern(self, name: str) -> str:
        for old, new in self.dialect.older.items():
            if name.endswith(old):
                current = name.removesuffix(old) + new
                self.origin.older[current] = name
                return current
        return name

    def get(self, name: str) -> Tensor:
        """The tensor: floating-point and finite."""
        stored = self.disk[name]
        tensor, where = self.source.get(stored), str(self.source.file_of(stored))
        if not tensor.is_floating_point():
            raise DamagedFile(f"{stored} holds {self.source.dtypes[stored]}, not floating-point numbers", where=where)
        files.check_finite(stored, tensor, where=where)
        return tensor


def _values(reading: _Reading, place: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    arch, origin = reading.spec.architecture, reading.origin
    steps = plan(reading.dialect, arch, reading.heads, origin.prefix)
    own = f"heads.{reading.heads[0]}." if reading.other_head else None
    missing = [
        step for step in steps
        if any(name not in reading.disk for name in step.disk) or (own and step.ours[0].startswith(own))
    ]  # fmt: skip
    fixed = constants(arch, reading.heads)
    left_out = [step for step in missing if step.ours[0] in fixed]
    origin.absent = tuple(name for step in left_out for name in step.disk)
    fresh = {name: torch.zeros(fixed[name]) for step in left_out for name in step.ours}
    fresh |= _fresh(reading, steps, [step for step in missing if step not in left_out])
    used = {name for step in steps if step not in missing for name in step.disk}
    _account(reading, used)
    values = {name: place(value) for name, value in fresh.items()}
    present = [step for step in steps if step not in missing]
    for step in present:
        _check_shapes(reading, step)
    _check_duplicates(reading, present)
    for step in present:
        found = [reading.get(name) for name in step.disk]
        values.update(zip(step.ours, map(place, step.read(found)), strict=True))
        _let_go(found, [values[name] for name in step.ours])
    return values


def _let_go(found: list[Tensor], made: list[Tensor]) -> None:
    """Give back the file's memory where everything that was read became a copy."""
    if {one.untyped_storage().data_ptr() for one in found}.isdisjoint(one.untyped_storage().data_ptr() for one in made):
        for one in found:
            files.forget(one)


def _fresh(reading: _Reading, steps: list[Step], missing: list[Step]) -> dict[str, Tensor]:
    if not missing:
        return {}
    backbone = [step for step in missing if not step.ours[0].startswith(("heads.", "pooler."))]
    first = (backbone or missing)[0]
    if backbone or reading.fresh is None:
        name = next(one for one in first.disk if one not in reading.disk)
        near = nearest(name, [one for one in reading.disk if one not in first.disk and one.isprintable()])
        head = "" if backbone else "; or load with fresh_head=True to start this head fresh"
        raise DamagedFile(
            f"{_counted(reading, steps)}, the first is {name}", where=str(reading.origin.directory),
            remedy=(near or "the checkpoint is of another model or incomplete") + head,
        )  # fmt: skip
    reading.origin.fresh = tuple(one for step in missing for one in step.ours)
    shapes = {one: shape for step in missing for one, shape in zip(step.ours, step.shapes, strict=True)}
    arch = reading.spec.architecture
    seed = reading.fresh.seed
    return {one: initial(arch, one, torch.empty(shape, device="meta"), seed) for one, shape in shapes.items()}


def _counted(reading: _Reading, steps: list[Step]) -> str:
    """How many tensors are missing, of how many, and how many others the file has instead."""
    wanted = {name for step in steps for name in step.disk}
    lacking, spare = len(wanted - reading.disk.keys()), len(reading.disk.keys() - wanted)
    others = f" and {spare} others are there" if spare else ""
    return f"{lacking} of {len(wanted)} tensors are missing{others}"


def _account(reading: _Reading, used: set[str]) -> None:
    """Every on-disk name is used, a duplicate, another head's, dropped for a reason, or refused."""
    origin = reading.origin
    left = [name for name in reading.disk if name not in used]
    others = _others(reading) if left else {}
    spare = []
    for name in left:
        drop = next((d for d in reading.dialect.drops if re.fullmatch(d.pattern, name)), None)
        if name in others:  # first: an untied matrix may be named as others name a copied table
            origin.unused[name] = others[name]
        elif _duplicate_of(reading.dialect, name, origin.prefix):
            origin.duplicates[name] = _duplicate_of(reading.dialect, name, origin.prefix)
        elif name.removeprefix(origin.prefix) in reading.dialect.tables:
            origin.tables[name] = _table(reading, name, reading.dialect.tables[name.removeprefix(origin.prefix)])
        elif reading.other_head and _in_place(reading, name):
            origin.unused[name] = "its head is for other labels"
        elif drop is not None and not _in_place(reading, name):
            origin.unused[name] = drop.why
        else:
            spare.append(name)
    if spare:
        raise DamagedFile(
            f"{len(spare)} tensors are not part of this model, the first is {_shown(spare[0])}",
            where=str(origin.directory), remedy=nearest(spare[0], used) or "the config is of another model",
        )  # fmt: skip


def _others(reading: _Reading) -> dict[str, str]:
    """On-disk names that belong to a head or pooler which is not read, and which."""
    arch = reading.spec.architecture
    others: dict[str, str] = {}
    placed = {rule.ours[0].split(".")[1] for rule in reading.dialect.heads}
    for head in (*(head for head in arch.heads if head in placed), None):
        for step in plan(reading.dialect, arch, (head,) if head else (), reading.origin.prefix):
            if step.ours[0].startswith(("heads.", "pooler.")):
                others.update(dict.fromkeys(step.disk, f"belongs to head {head}" if head else "the pooler is not read"))
    return {name: why for name, why in others.items() if not _in_place(reading, name)}


def _in_place(reading: _Reading, name: str) -> bool:
    """Whether it stands in a place of a head that is read: two heads may have one name on disk."""
    places = {r.disk for r in reading.dialect.heads for h in reading.heads if r.ours[0].startswith(f"heads.{h}.")}
    return bool({name, name.rpartition(".")[0]} & places)


def _shown(name: str) -> str:
    """An on-disk name as a message may hold it: escaped where a terminal would act on it, and never endless."""
    return name if name.isprintable() and len(name) <= 200 else repr(name[:200])


def _duplicate_of(dialect: Dialect, name: str, prefix: str) -> str:
    return dialect.duplicates.get(name) or dialect.duplicates.get(name.removeprefix(prefix), "")


def _check_shapes(reading: _Reading, step: Step) -> None:
    for name, expected in zip(step.disk, step.disk_shapes(), strict=True):
        found = tuple(reading.source.shapes[reading.disk[name]])
        if found != expected:
            raise DamagedFile(
                f"{name} measures {list(found)}, this model needs {list(expected)}",
                where=str(reading.origin.directory), remedy="config and weights are of different models",
            )  # fmt: skip


def _table(reading: _Reading, name: str, path: str) -> Tensor:
    """A stored table of sinusoids, [rows, D]; the model computes them, so it must be the same."""
    stored, positions = reading.get(name), lookup(reading.spec.architecture, path)
    if not isinstance(positions, Sinusoidal):
        raise DamagedFile(f"{name} is there, but {path} is {positions}", where=str(reading.origin.directory))
    rows, halves = torch.arange(len(stored)), positions.layout == "halves"
    right = sinusoids(rows, stored.shape[-1], positions.base, halves=halves, dtype=torch.float64)
    # Old conversions computed angles in float32, which far positions show; storage may be narrower still.
    if not torch.allclose(stored.double(), right, rtol=0, atol=1e-3 + 4 * torch.finfo(stored.dtype).eps):
        raise DamagedFile(
            f"{name} differs from the sinusoids that the config asks for", where=str(reading.origin.directory),
            remedy="the file is damaged, or holds learned positions",
        )  # fmt: skip
    return stored


def _check_duplicates(reading: _Reading, steps: list[Step]) -> None:
    makers = {ours: (step, at) for step in steps for at, ours in enumerate(step.ours)}
    for name, ours in list(reading.origin.duplicates.items()):
        step, at = makers.get(ours, (None, 0))
        if step is None:
            reading.origin.unused[name] = "belongs to a head that is not loaded"
        elif not torch.equal(reading.get(name), step.read([reading.get(one) for one in step.disk])[at]):
            raise DamagedFile(
                f"{name} differs from {ours}, which the config says is the same tensor",
                where=str(reading.origin.directory), remedy="set tie_word_embeddings to false if it is meant",
            )  # fmt: skip


__all__ = ["Fresh", "Origin", "UsageError", "load", "read_weights"]
