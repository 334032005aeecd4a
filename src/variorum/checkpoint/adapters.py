"""Low-rank adapters in and out, in PEFT's layout: ``adapter_config.json`` and ``adapter_model.safetensors``.

Names are those of the published model, by the weight maps that read and write its weights, so that PEFT puts our
adapters on transformers' model, and we read those that were made there. Where several of our linears are one matrix on
disk (GPT-2's ``c_attn``), their adapters are written as one: as they are if they read alike, else side by side, an
adapter of the summed rank that is the same function. Heads that learn whole lie beside (PEFT: ``modules_to_save``).
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from variorum.checkpoint.config import label_names
from variorum.checkpoint.files import TensorFiles, check_finite, read_json, write_directory
from variorum.checkpoint.layout import layout_of
from variorum.checkpoint.load import Fresh, load
from variorum.checkpoint.source import open_source
from variorum.checkpoint.weights import Step, plan
from variorum.errors import DamagedFile, NotFound, UsageError, nearest
from variorum.model import Model
from variorum.parts.lora import LowRank, adapters, attach, merge, remove
from variorum.spec.dialect import Dialect
from variorum.spec.heads import AdaptiveSoftmax, TwoWayHead, VocabularyHead

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ROOT, A, B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
TASKS = {
    "sequence_classification": "SEQ_CLS", "token_classification": "TOKEN_CLS", "question_answering": "QUESTION_ANS",
    "causal_lm": "CAUSAL_LM", "seq2seq_lm": "SEQ_2_SEQ_LM",
}  # fmt: skip
LINEAR = ("same", "transposed", "fused", "paired")
"""Rules under which what lies on disk is the weight of a linear."""
UNREAD = {"use_dora": "DoRA scales columns", "lora_bias": "adapters have a bias", "alora_invocation_tokens": "aLoRA"}


def whole(model: Model) -> list[str]:
    """Canonical names of what learns whole beside adapters: heads over labels, and what no file of the base held."""
    wordy = (VocabularyHead, AdaptiveSoftmax, TwoWayHead)
    named = [head for head in model.head_names if not isinstance(model.spec.architecture.heads[head], wordy)]
    fresh = () if model.origin is None else model.origin.fresh
    return [n for n, _ in model.named_tensors() if n.startswith(tuple(f"heads.{one}." for one in named)) or n in fresh]


def save_adapter(model: Model, directory: str | Path, *, base: str = "") -> None:
    """Write the adapters of ``model``, merged or not, and what learned whole beside them.

    Args:
        base: the model they belong to, by the name or directory under which others find it; where it was loaded from,
            if absent.

    Raises:
        UsageError: it has no adapters, or one has no place in the published layout; or the directory holds something
            else. OverBudget: not enough free space.
    """
    layout = _Layout(model)
    tensors, ranks, scales = dict[str, Tensor](), dict[str, int](), dict[str, float]()
    held = adapters(model)
    if not held:
        raise UsageError(f"{model.spec.name} has no adapters", remedy="train it with Lora, or save the whole model")
    for place, step in layout.linears.items():
        mine = [held.get(owner) for owner in _owners(step)]
        if any(mine):
            tensors[ROOT + place + A], tensors[ROOT + place + B], scales[place] = _joined(model, step, mine)
            ranks[place] = len(tensors[ROOT + place + A])
    missing = {id(one.a) for one in held.values()} - {id(held[o].a) for o in layout.owners if o in held}
    if missing:
        name = next(name for name, one in held.items() if id(one.a) in missing)
        raise UsageError(
            f"{name} is no linear in the published layout", remedy="merge the adapters, and save the model"
        )
    beside = layout.beside(whole(model))
    tensors |= {ROOT + name: tensor for name, tensor in beside.items()}
    document = _config(layout, ranks, scales, beside, base or _base(model), max(one.dropout for one in held.values()))
    content = {CONFIG: json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"}
    write_directory(Path(directory), {n: t.detach() for n, t in tensors.items()}, content, single=WEIGHTS)


def load_adapter(model: Model, directory: str | Path) -> set[str]:
    """Put the adapters of a directory beside the linears of ``model``, and what learned whole in its place.

    Returns:
        the canonical names of what learned whole.

    Raises:
        NotFound: no adapters there. DamagedFile: they are of another model or of a kind that is not read.
    """
    directory = Path(directory)
    config, where = read_config(directory), str(directory)
    with TensorFiles(directory) as files:
        tensors = {name.removeprefix(ROOT): files.get(name).clone() for name in files.shapes}
    for name, tensor in tensors.items():
        check_finite(name, tensor, where=where)
    layout = _Layout(model)
    places = layout.found({name.removesuffix(A) for name in tensors if name.endswith(A)}, where)
    like = next(model.parameters())
    used: set[str] = set()
    for place, step in places.items():
        a, b = (tensors.get(place + end) for end in (A, B))
        used |= {place + A, place + B}
        shape = step.disk_shapes()[0][:: -1 if layout.turned(step) else 1]
        if a is None or b is None or a.shape[1:] != shape[1:] or b.shape != (shape[0], len(a)):
            raise DamagedFile(f"the adapter of {place} does not fit a linear of {list(shape)}", where=where)
        scale = _scale(config, place, len(a))
        for owner, part in zip(_owners(step), _matrix(step).read([b]), strict=True):
            ranks = _spoken(part)
            made = LowRank(a[ranks].to(like), part[:, ranks].to(like), scale=scale, dropout=config["lora_dropout"])
            _beside_every(model, owner, made)
    put = layout.put({name: tensor for name, tensor in tensors.items() if name not in used}, where)
    model.bind()
    return put


def load_merged(directory: str | Path, adapter: str | Path, **options: Any) -> Model:
    """The model of ``directory`` with the adapters of another merged into its weights.

    Args:
        options: of :func:`variorum.checkpoint.load`; the head is that of the adapters, if absent.

    Raises:
        DamagedFile: the adapters are of another model, or hold no head where the model has none.
    """
    head = head_of(read_config(Path(adapter)))
    if head is not None and "head" not in options:
        options |= {"head": head, "fresh_head": _fresh(Path(directory), Path(adapter))}
    model = load(directory, **options)
    put = load_adapter(model, adapter)
    missing = [name for name in model.origin.fresh if name not in put]
    if missing:
        raise DamagedFile(f"neither the model nor the adapters hold {missing[0]}", where=str(adapter))
    merge(model)
    remove(model)
    model.origin.fresh = ()
    return model


def _fresh(directory: Path, adapter: Path) -> bool | Fresh:
    """How a head starts that the adapters fill: for their number of labels, by the model's names for as many."""
    labels, names = _labels(adapter), label_names(open_source(directory).config)
    same = labels is None or labels == len(names)
    return True if same else Fresh(labels=tuple(f"LABEL_{i}" for i in range(labels or 0)))


def read_config(directory: Path) -> dict[str, Any]:
    """``adapter_config.json`` of a directory, checked.

    Raises:
        NotFound: there is none. DamagedFile: it asks for what is not read.
    """
    if not (directory / CONFIG).is_file():
        raise NotFound(f"no {CONFIG}", where=str(directory), remedy="give a directory with adapters in PEFT's layout")
    config, where = read_json(directory / CONFIG), str(directory / CONFIG)
    if config.get("peft_type") != "LORA":
        raise DamagedFile(f"is of the kind {str(config.get('peft_type'))[:40]!r}; LORA is read", where=where)
    if config.get("bias", "none") != "none":
        raise DamagedFile("trained biases of the base too, which are not read", where=where)
    for name, what in UNREAD.items():
        if config.get(name):
            raise DamagedFile(f"asks for {name} ({what}), which is not read", where=where)
    return {"lora_dropout": 0.0, **config}


def head_of(config: Mapping[str, Any]) -> str | None:
    """The head that adapters were trained with, by their config; ``None`` where it says none."""
    return next((head for head, task in TASKS.items() if task == config.get("task_type")), None)


def _labels(directory: Path) -> int | None:
    """How many labels the head beside the adapters tells apart; ``None`` where there is no such head."""
    with TensorFiles(directory) as files:
        heads = [shape for name, shape in files.shapes.items() if not name.endswith((A, B)) and len(shape) == 2]
    return min((shape[0] for shape in heads), default=None)


class _Layout:
    """Where on disk the tensors of a model lie, by the names of transformers' modules."""

    def __init__(self, model: Model) -> None:
        origin = model.origin
        self.model = model
        published = None if origin is None or origin.dialect.read_only else origin.dialect
        self.dialect: Dialect = published or layout_of(model.spec, model.head_names)
        self.prefix = self.dialect.prefix_of(model.head_names)
        self.steps = plan(self.dialect, model.spec.architecture, model.head_names, self.prefix)
        self.linears = {
            step.disk[0].removesuffix(".weight"): step for step in self.steps if _is_linear(model, step)
        }  # fmt: skip
        self.owners = [owner for step in self.linears.values() for owner in _owners(step)]

    def turned(self, step: Step) -> bool:
        """Whether the matrix lies input by output."""
        return step.rule.how == "transposed" or step.rule.transposed

    def found(self, places: Iterable[str], where: str) -> dict[str, Step]:
        """The steps of modules, named with or without the prefix of a model with a head."""
        found = {}
        for place in places:
            for name in (place, self.prefix + place, place.removeprefix(self.dialect.prefix)):
                if name in self.linears:
                    found[place] = self.linears[name]
                    break
            else:
                remedy = nearest(place, self.linears) or "the adapters are of another model"
                raise DamagedFile(f"{place[:200]!r} is no linear of {self.model.spec.name}", where=where, remedy=remedy)
        return found

    def beside(self, names: Sequence[str]) -> dict[str, Tensor]:
        """Canonical tensors under their names on disk."""
        values = {name: self.model.get_parameter(name).detach() for name in names}
        steps = [step for step in self.steps if set(step.ours) <= values.keys()]
        return {
            name: tensor for step in steps
            for name, tensor in zip(step.disk, step.write([values[one] for one in step.ours]), strict=True)
        }  # fmt: skip

    def put(self, tensors: Mapping[str, Tensor], where: str) -> set[str]:
        """Tensors that learned whole, into their places, whose canonical names come back."""
        put = set[str]()
        places = {name: step for step in self.steps for name in step.disk}
        for name, tensor in tensors.items():
            step = places.get(name) or places.get(self.prefix + name)
            if step is None or len(step.disk) > 1:
                raise DamagedFile(f"{name[:200]!r} is no tensor of {self.model.spec.name}", where=where)
            if tuple(tensor.shape) != step.disk_shapes()[0]:
                raise DamagedFile(
                    f"{name} measures {list(tensor.shape)}, the model's {list(step.disk_shapes()[0])}", where=where
                )
            for ours, value in zip(step.ours, step.read([tensor]), strict=True):
                put.add(ours)
                with torch.no_grad():
                    self.model.get_parameter(ours).copy_(value)
        return put


def _is_linear(model: Model, step: Step) -> bool:
    plain = step.rule.how in LINEAR and all(name.endswith(".weight") for name in (*step.ours, *step.disk))
    return plain and all(isinstance(model.get_submodule(owner), nn.Linear) for owner in _owners(step))


def _owners(step: Step) -> list[str]:
    return [name.removesuffix(".weight") for name in step.ours]


def _matrix(step: Step) -> Step:
    """The step for a matrix whose rows are the outputs, and whose columns anything."""
    how = "same" if step.rule.how == "transposed" else step.rule.how
    shapes = tuple((shape[0], -1) for shape in step.shapes)
    return dataclasses.replace(
        step, rule=dataclasses.replace(step.rule, how=how, transposed=False), shapes=shapes
    )  # fmt: skip


def _joined(model: Model, step: Step, mine: Sequence[LowRank | None]) -> tuple[Tensor, Tensor, float]:
    """A [r, in], B [out, r] and the scale of the one adapter that says what those of a matrix's parts say."""
    there = [one for one in mine if one is not None]
    scale = there[0].scale
    alike = all(torch.equal(one.a, there[0].a) for one in there)
    total = len(there[0].a) if alike else sum(len(one.a) for one in there)
    parts, begin = [], 0
    for one, shape in zip(mine, step.shapes, strict=True):
        part = there[0].b.new_zeros(shape[0], total)
        if one is not None:
            part[:, begin : begin + len(one.a)] = one.b.detach() * (one.scale / scale)
            begin += 0 if alike else len(one.a)
        parts.append(part)
    a = there[0].a if alike else torch.cat([one.a for one in there])
    return a, _matrix(step).write(parts)[0], scale


def _spoken(part: Tensor) -> Tensor:
    """Which ranks of a B [out, r] say something of these outputs: all, or where adapters lie side by side its own."""
    said = (part != 0).any(0)
    return said if said.any() else ~said


def _beside_every(model: Model, owner: str, made: LowRank) -> None:
    """Attach ``made`` to the linear ``owner``, and its like to those that share its weight."""
    weight = model.get_submodule(owner).weight
    for module in model.modules():
        if isinstance(module, nn.Linear) and module.weight is weight:
            own = made if module is model.get_submodule(owner) else LowRank(
                made.a, made.b, scale=made.scale, dropout=made.dropout
            )  # fmt: skip
            attach(module, own)


def _scale(config: Mapping[str, Any], place: str, rank: int) -> float:
    alpha = _pattern(config.get("alpha_pattern"), place, config.get("lora_alpha", rank))
    return float(alpha) / (math.sqrt(rank) if config.get("use_rslora") else rank)


def _pattern(patterns: object, place: str, usual: Any) -> Any:
    """What PEFT's patterns of names say of a module."""
    for name, value in patterns.items() if isinstance(patterns, dict) else ():
        if place == name or re.fullmatch(rf"(.*\.)?({name})", place):
            return value
    return usual


def _base(model: Model) -> str:
    return "" if model.origin is None else str(model.origin.directory)


def _config(
    layout: _Layout, ranks: Mapping[str, int], scales: Mapping[str, float], beside: Iterable[str], base: str,
    dropout: float,
) -> dict[str, Any]:  # fmt: skip
    """What PEFT needs to know to put the same adapters on transformers' model."""
    rank = Counter(ranks.values()).most_common(1)[0][0]
    alphas = {place: scales[place] * ranks[place] for place in ranks}
    alpha = Counter(alphas[place] for place in ranks if ranks[place] == rank).most_common(1)[0][0]
    return {
        "peft_type": "LORA", "base_model_name_or_path": base, "inference_mode": True, "bias": "none",
        "task_type": TASKS.get(layout.model.head_names[0]) if layout.model.head_names else "FEATURE_EXTRACTION",
        "r": rank, "lora_alpha": _number(alpha), "lora_dropout": dropout, "target_modules": _targets(layout, ranks),
        "rank_pattern": {place: held for place, held in ranks.items() if held != rank},
        "alpha_pattern": {place: _number(held) for place, held in alphas.items() if held != alpha},
        "fan_in_fan_out": any(layout.turned(layout.linears[place]) for place in ranks),
        "modules_to_save": sorted({_module(name, layout.prefix) for name in beside}) or None,
        "use_rslora": False, "use_dora": False, "init_lora_weights": True,
    }  # fmt: skip


def _number(value: float) -> float | int:
    return int(value) if value == int(value) else value


def _module(name: str, prefix: str) -> str:
    """The module that holds a tensor which learned whole: a head's outermost one, or where in the backbone it is."""
    return name.rpartition(".")[0] if prefix and name.startswith(prefix) else name.partition(".")[0]


def _targets(layout: _Layout, places: Mapping[str, object]) -> list[str]:
    """The adapted modules as PEFT finds them: the last words of their names where these name no other."""
    ends = {place.rpartition(".")[2] for place in places}
    meant = {place for place in layout.linears if place.rpartition(".")[2] in ends}
    return sorted(ends) if meant == places.keys() else sorted(places)
