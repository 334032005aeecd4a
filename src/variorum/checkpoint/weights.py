"""Weight maps at work: a dialect's rules expanded for one architecture, run in both directions.

Every canonical tensor is made by exactly one rule, every on-disk tensor is used, dropped for a reason, or refused.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from variorum.errors import DamagedFile
from variorum.spec.architecture import Architecture
from variorum.spec.dialect import Dialect, Rule
from variorum.spec.inventory import Shape, constants, tensors


@dataclasses.dataclass(frozen=True)
class Step:
    """One rule applied at one place: which on-disk tensors make which of ours."""

    rule: Rule
    disk: tuple[str, ...]
    ours: tuple[str, ...]
    shapes: tuple[Shape, ...]
    heads: int
    head_dim: int = 0

    def read(self, found: Sequence[Tensor]) -> list[Tensor]:
        """On-disk tensors -> ours, as views where possible."""
        rule, first = self.rule, found[0]
        if rule.how == "stacked":
            return [torch.stack(list(found))]
        if rule.how == "fused":
            return self._split(first.T if rule.transposed and first.dim() == 2 else first)
        if rule.how == "transposed":
            return [first.T if first.dim() == 2 else first]
        if rule.how == "per_head":
            return [first.reshape(first.shape[0], -1).T]
        if rule.how == "paired":
            return [first.unflatten(0, (-1, self.head_dim // 2, 2)).transpose(1, 2).flatten(0, 2)]
        if rule.how == "shifted":
            return [first - rule.by]
        return [first.reshape(self.shapes[0])]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """Ours -> on-disk tensors."""
        rule, first = self.rule, ours[0]
        if rule.how == "stacked":
            return list(first.unbind(0))
        if rule.how == "fused":
            joined = self._join(ours)
            return [joined.T if rule.transposed and joined.dim() == 2 else joined]
        if rule.how == "transposed":
            return [first.T if first.dim() == 2 else first]
        if rule.how == "per_head":
            return [first.T.reshape(first.shape[1], self.heads, -1)]
        if rule.how == "per_head_out":
            return [first.reshape(first.shape[0], self.heads, -1)]
        if rule.how == "paired":
            return [first.unflatten(0, (-1, 2, self.head_dim // 2)).transpose(1, 2).flatten(0, 2)]
        if rule.how == "shifted":
            return [first + rule.by]
        return [first[(None,) * rule.ones] if rule.how == "leading" else first]

    def _split(self, whole: Tensor) -> list[Tensor]:
        if self.rule.layout == "s h d":
            return list(whole.split([shape[0] for shape in self.shapes]))
        if self.rule.layout == "e s i":
            return list(whole.split([shape[1] for shape in self.shapes], 1))
        groups, queries = self._groups()
        by_group = whole.unflatten(0, (groups, queries + len(self.shapes) - 1, -1))
        parts = by_group.split([queries] + [1] * (len(self.shapes) - 1), 1)
        return [part.flatten(0, 2) for part in parts]

    def _join(self, parts: Sequence[Tensor]) -> Tensor:
        if self.rule.layout == "s h d":
            return torch.cat(list(parts))
        if self.rule.layout == "e s i":
            return torch.cat(list(parts), 1)
        groups, queries = self._groups()
        counts = [queries] + [1] * (len(parts) - 1)
        heads = [part.unflatten(0, (groups, count, -1)) for part, count in zip(parts, counts, strict=True)]
        return torch.cat(heads, 1).flatten(0, 2)

    def _groups(self) -> tuple[int, int]:
        """Key heads, and query heads of each, from the rows of both."""
        groups = self.heads * self.shapes[1][0] // self.shapes[0][0]
        return groups, self.heads // groups

    def disk_shapes(self) -> list[Shape]:
        """What the on-disk tensors must measure."""
        blank = [torch.empty(shape, device="meta") for shape in self.shapes]
        return [tuple(t.shape) for t in self.write(blank)]


def plan(dialect: Dialect, arch: Architecture, heads: Sequence[str], prefix: str) -> list[Step]:
    """Every step for a model with these heads.

    Raises:
        DamagedFile: the dialect has no rule for a tensor of this architecture, or one name for two of them.
    """
    wanted = tensors(arch, heads) | constants(arch, heads)
    steps: list[Step] = []
    done: set[str] = set()
    rules = [*(dataclasses.replace(r, disk=prefix + r.disk) for r in dialect.rules), *dialect.heads]
    for rule in rules:
        for step in _apply(rule, arch, wanted, done):
            steps.append(step)
            done.update(step.ours)
    left = [name for name in wanted if name not in done]
    if left:
        raise DamagedFile(f"the {dialect.model_type} layout has no place for {left[0]} (and {len(left) - 1} more)")
    taken: dict[str, str] = {}
    for step in steps:
        for name in step.disk:
            if name in taken:
                raise DamagedFile(
                    f"the {dialect.model_type} layout has only {name} for {taken[name]} and {step.ours[0]}"
                )
            taken[name] = step.ours[0]
    return steps


def _apply(rule: Rule, arch: Architecture, wanted: Mapping[str, Shape], done: set[str]) -> Iterator[Step]:
    groups: dict[tuple[tuple[tuple[str, str], ...], str], dict[int, str]] = defaultdict(dict)
    for number, template in enumerate(rule.ours):
        pattern = re.compile(re.escape(template).replace(r"\{i\}", r"(?P<i>\d+)") + r"(?P<suffix>\..+)?$")
        for name in wanted:
            match = None if name in done else pattern.match(name)
            if match:
                found = match.groupdict()
                groups[tuple((k, v) for k, v in found.items() if k != "suffix"), found["suffix"] or ""][number] = name
    for (variables, suffix), names in groups.items():
        if len(names) < len(rule.ours):
            continue
        ours = tuple(names[number] for number in sorted(names))
        values = _places(arch, ours[0], dict(variables))
        disk = _disk_names(rule, values, suffix, wanted[ours[0]])
        if disk is None:
            continue
        shapes = tuple(wanted[name] for name in ours)
        stack = arch.stacks.get(ours[0].split(".")[0], arch.main) if arch.stacks else None
        attention = None if stack is None else stack.block.attention
        yield Step(rule, disk, ours, shapes, getattr(attention, "heads", 0), getattr(attention, "head_dim", 0))


def _places(arch: Architecture, name: str, variables: dict[str, str]) -> dict[str, object]:
    values: dict[str, object] = dict(variables)
    stack = arch.stacks.get(name.split(".")[0])
    if "i" in variables and stack is not None and stack.sharing is not None:
        outer, inner = divmod(int(variables["i"]), stack.sharing.inner)
        steps = stack.depth // stack.sharing.inner
        values |= {"group": int(outer / (steps / stack.sharing.groups)), "inner": inner}
    return values


def _disk_names(rule: Rule, values: Mapping[str, object], suffix: str, shape: Shape) -> tuple[str, ...] | None:
    needed = set(re.findall(r"\{(\w+)\}", rule.disk)) - {"j"}
    if not needed <= values.keys():
        return None
    count = shape[0] if rule.how == "stacked" else 1
    return tuple(rule.disk.format(**values, j=j) + suffix for j in range(count))


def to_disk(steps: Iterable[Step], ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Canonical tensors -> on-disk tensors."""
    return {
        name: tensor
        for step in steps
        for name, tensor in zip(step.disk, step.write([ours[one] for one in step.ours]), strict=True)
    }
