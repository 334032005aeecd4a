"""Two runs of one model side by side, module by module: where do they part?

The weight map that reads a checkpoint also names its modules, so activations that another implementation recorded
under the published names can stand beside ours. Nothing is known here of who recorded them.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from variorum.checkpoint.weights import Step, plan
from variorum.family.names import dialect_for
from variorum.model import Model

# Accumulated rounding over a deep model, in standard deviations of what is compared.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
COARSE = 2e-2  # 16-bit numbers
SCORES = ("logits", "start_logits", "end_logits", "last_hidden_state")


@dataclasses.dataclass(frozen=True)
class Difference:
    """One activation compared: the largest |Δ|, and that in standard deviations (``spread``) of the reference."""

    name: str
    ours: str
    shape: list[int]
    largest: float
    spread: float
    error: float
    differs: bool


@dataclasses.dataclass(frozen=True)
class Comparison:
    """All activations compared, in the order of the calls; ``uncompared`` says why the others were not."""

    compared: list[Difference]
    uncompared: dict[str, str]
    tolerance: float

    @property
    def first(self) -> Difference | None:
        """The first that differs."""
        return next((one for one in self.compared if one.differs), None)


def tolerance_of(dtype: torch.dtype) -> float:
    """What rounding alone may do."""
    return TOLERANCE.get(dtype, COARSE)


def published_names(model: Model, recorded: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Published module name -> our modules whose outputs, side by side, are its output.

    A module stands under the published name when both hold the same tensors and nothing else; ``recorded`` names decide
    which prefix the publisher's class used.
    """
    dialect, arch = model.origin.dialect, model.spec.architecture
    if dialect.read_only:  # what a GGUF file was converted from is what other libraries record
        dialect = dialect_for(model.spec) or dialect
    wanted = {name.partition("#")[0] for name in recorded}
    prefixes = dict.fromkeys((model.origin.prefix, dialect.prefix_of(model.head_names), dialect.prefix, ""))
    tables = (_table(plan(dialect, arch, model.head_names, prefix)) for prefix in prefixes)
    table = max(tables, key=lambda found: len(found.keys() & wanted))
    return {theirs: names for theirs, names in table.items() if all(_has(model, name) for name in names)}


def _has(model: Model, name: str) -> bool:
    try:
        model.get_submodule(name)
    except AttributeError:
        return False
    return True


def _table(steps: Sequence[Step]) -> dict[str, tuple[str, ...]]:
    pairs = [(step, name) for step in steps for name in step.ours]
    # Every container, theirs and ours, and its tensors on the other side.
    ours_of: dict[str, set[str]] = defaultdict(set)
    theirs_of: dict[str, set[str]] = defaultdict(set)
    for step, name in pairs:
        for container in _containers(name):
            theirs_of[container].update(step.disk)
        for disk in step.disk:
            for container in _containers(disk):
                ours_of[container].add(name)
    tensors_of: dict[str, set[str]] = defaultdict(set)
    for _, name in pairs:
        for container in _containers(name):
            tensors_of[container].add(name)
    found: dict[str, tuple[str, ...]] = {}
    for container, on_disk in theirs_of.items():  # outer ones first, so that the innermost wins a name
        shared = _common(on_disk)
        # A table whose rows the input scales is, where published, a module that scales them itself.
        scaled = container.endswith(".input.table") and found.get(shared) == (container.removesuffix(".table"),)
        if shared and ours_of[shared] == tensors_of[container] and not scaled:
            found[shared] = (container,)
    return found | _fused(steps, ours_of, tensors_of)


def _fused(
    steps: Sequence[Step], ours_of: Mapping[str, set[str]], tensors_of: Mapping[str, set[str]]
) -> dict[str, tuple[str, ...]]:
    """Published modules that are several of ours side by side."""
    found = {}
    for step in steps:
        disk = step.disk[0].rpartition(".")[0]
        parts = tuple(dict.fromkeys(name.rpartition(".")[0] for name in step.ours))
        whole = set().union(*(tensors_of[part] for part in parts))
        if step.rule.how == "fused" and step.rule.layout == "s h d" and ours_of[disk] == whole:
            found[disk] = parts
    return found


def _containers(name: str) -> Iterator[str]:
    """Every module that a tensor is in, outermost first."""
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))


def _common(names: Iterable[str]) -> str:
    """The innermost module that holds all of ``names``."""
    shared: list[str] = []
    for level in zip(*(name.split(".")[:-1] for name in names), strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return ".".join(shared)


@contextmanager
def recording(model: Model, names: Mapping[str, tuple[str, ...]] | None = None) -> Iterator[dict[str, Tensor]]:
    """Inside, outputs of modules are kept by name in the order of the calls; ``name#1`` is a second call.

    Args:
        names: published name -> our modules, as :func:`published_names` gives; all modules by our names if absent.
    """
    seen: dict[str, Tensor] = {}
    waiting: dict[str, dict[str, Tensor]] = defaultdict(dict)

    def keep(name: str, ours: tuple[str, ...], part: str, output: Any) -> None:
        tensor = _first_tensor(output)
        if tensor is None:
            return
        parts = waiting[name]
        parts[part] = tensor
        if len(parts) == len(ours):
            whole = parts[ours[0]] if len(ours) == 1 else torch.cat([parts[one] for one in ours], -1)
            uses = sum(1 for key in seen if key.partition("#")[0] == name)
            seen[f"{name}#{uses}" if uses else name] = whole.detach().clone()
            parts.clear()

    table = {n: (n,) for n, _ in model.named_modules() if n} if names is None else names
    handles = []
    for name, ours in table.items():
        for uses in _shared_with(model, ours):
            for part, module in zip(ours, uses, strict=True):
                hook = _hook(keep, name, ours, part)
                handles.append(module.register_forward_hook(hook))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _hook(keep: Any, name: str, ours: tuple[str, ...], part: str) -> Any:
    return lambda _module, _inputs, output: keep(name, ours, part, output)


def _shared_with(model: Model, ours: tuple[str, ...]) -> Iterator[tuple[nn.Module, ...]]:
    """The modules called ``ours`` and, where layers share parameters, those of the layers that use them."""
    yield tuple(model.get_submodule(name) for name in ours)
    parts = ours[0].split(".")
    stack = model.spec.architecture.stacks.get(parts[0])
    if stack is None or stack.sharing is None or parts[1:2] != ["layers"] or len(parts) < 3:
        return
    owner = int(parts[2])
    for index in range(stack.depth):
        if index != owner and stack.owner(index, "attention") == owner == stack.owner(index, "feedforward"):
            yield tuple(model.get_submodule(".".join([*n.split(".")[:2], str(index), *n.split(".")[3:]])) for n in ours)


def _first_tensor(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    values = output if isinstance(output, (list, tuple)) else ()
    return next((value for value in values if isinstance(value, Tensor)), None)


@torch.no_grad()
def run(
    model: Model, inputs: Mapping[str, Tensor], names: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, Tensor]:
    """Activations of one forward pass, the model's own results last."""
    with recording(model, names) as seen:
        out = model(**inputs)
    results = {name: getattr(out, name) for name in SCORES if getattr(out, name) is not None}
    return {**seen, **results}


def compare(
    reference: Mapping[str, Tensor], ours: Mapping[str, Tensor], *, names: Mapping[str, tuple[str, ...]],
    mask: Tensor | None = None, tolerance: float,
) -> Comparison:  # fmt: skip
    """Every activation of ``reference`` beside ours, in its order.

    Args:
        names: published name -> our modules, to say which they are.
        mask: 1 at real tokens, [B, T]: what stands at padding is not compared.
        tolerance: the largest |Δ| allowed, in standard deviations of the reference.
    """
    compared: list[Difference] = []
    uncompared: dict[str, str] = {}
    for name, right in reference.items():
        if name not in ours or not right.is_floating_point():
            uncompared[name] = "no module of ours holds the same tensors" if name not in ours else "not numbers"
            continue
        left = _laid_out(ours[name], right)
        if left is None:
            uncompared[name] = f"measures {list(right.shape)}, ours {list(ours[name].shape)}"
            continue
        label = ", ".join(names.get(name.partition("#")[0], (name,)))
        compared.append(_difference(name, label, right, left, mask, tolerance))
    return Comparison(compared, uncompared, tolerance)


def _laid_out(left: Tensor, right: Tensor) -> Tensor | None:
    """``left`` in the layout of ``right``: [T, B, …] for [B, T, …], [tokens, D] for [B, T, D], one row for all of B."""
    if left.shape == right.shape:
        return left
    if left.dim() > 2 and (left.shape[1], left.shape[0], *left.shape[2:]) == right.shape:
        return left.transpose(0, 1)
    if left.numel() == right.numel() and left.shape[-1:] == right.shape[-1:]:
        return left.reshape(right.shape)
    try:
        return left.expand_as(right)
    except RuntimeError:
        return None


def _difference(
    name: str, label: str, right: Tensor, left: Tensor, mask: Tensor | None, tolerance: float
) -> Difference:  # fmt: skip
    shape = list(right.shape)
    if mask is not None:
        left, right = _at_tokens(left, mask.bool()), _at_tokens(right, mask.bool())
    right, left = right.double(), left.double()
    largest, spread = float((left - right).abs().max()) if right.numel() else 0.0, _spread(right)
    error = largest / spread if spread else largest
    # Not `error > tolerance`: a NaN differs.
    return Difference(name, label, shape, largest, spread, error, not error <= tolerance)


def _at_tokens(values: Tensor, real: Tensor) -> Tensor:
    """What stands at real tokens of [B, T, …], [T, B, …], [tokens, …] or [B, H, T, d]; anything else whole."""
    for mask in (real, real.T, real.flatten()):
        if values.shape[: mask.dim()] == mask.shape:
            return values[mask]
    if values.dim() == 4 and (values.shape[0], values.shape[2]) == real.shape:
        return values.transpose(1, 2)[real]
    return values


def _spread(values: Tensor) -> float:
    return float(values.double().std(correction=0)) if values.numel() else 0.0
