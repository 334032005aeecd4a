"""What a task learns from: examples as ids, and batches of them. What an example means is the task's own matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from variorum.objectives.base import IGNORED

if TYPE_CHECKING:
    from variorum.model import Model
    from variorum.objectives.base import Batch

IDS, SEGMENTS = "input_ids", "token_type_ids"


@dataclass(frozen=True, kw_only=True)
class Example:
    """One thing to learn from.

    Attributes:
        inputs: what the model reads, ids by the name of the input.
        target: a class or a number, or one for each label or token.
        weight: by which its loss is multiplied.
    """

    inputs: Mapping[str, Sequence[int]]
    target: Any
    weight: float = 1.0

    def __len__(self) -> int:
        return max(map(len, self.inputs.values()))


Collate = Callable[[Sequence[Example]], "Batch"]
"""Makes one batch of some examples, as the objective takes it."""


def inputs_of(model: Model, encoding: Any) -> dict[str, list[int]]:
    """What ``model`` reads of a text that its tokenizer encoded."""
    from variorum.inference.encode import reads_segments

    found = {IDS: encoding.ids}
    return found | {SEGMENTS: encoding.type_ids} if reads_segments(model) else found


@dataclass(frozen=True)
class Padded:
    """The usual way: inputs padded on the right [B, T] with ``attention_mask``, ``labels``, and ``weight`` if any.

    Targets that are sequences of whole numbers become ``labels`` [B, T], padded with -100; sequences of fractions
    [B, labels], and single values [B].
    """

    pad_id: int = 0

    def __call__(self, examples: Sequence[Example]) -> Batch:
        import torch

        names = examples[0].inputs
        batch = {
            name: padded([one.inputs[name] for one in examples], self.pad_id if name == IDS else 0) for name in names
        }
        lengths = torch.tensor([len(one.inputs[IDS]) for one in examples])
        batch["attention_mask"] = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        batch["labels"] = _targets([one.target for one in examples])
        if any(one.weight != 1.0 for one in examples):
            batch["weight"] = torch.tensor([one.weight for one in examples])
        return batch


def padded(rows: Sequence[Sequence[int]], filler: int) -> Any:
    """Ids of different lengths as int64 [B, T]."""
    import torch

    made = torch.full((len(rows), max(map(len, rows))), filler, dtype=torch.long)
    for i, row in enumerate(rows):
        made[i, : len(row)] = torch.tensor(row, dtype=torch.long)
    return made


def _targets(targets: Sequence[Any]) -> Any:
    import torch

    ids = isinstance(targets[0], Sequence) and all(isinstance(one, int) for row in targets for one in row)
    return padded(targets, IGNORED) if ids else torch.tensor(targets)


def by_tokens(examples: Sequence[Example], tokens: int) -> list[list[Example]]:
    """Pieces of at most ``tokens`` padded tokens, similar lengths together; a longer example is a piece of its own."""
    pieces: list[list[Example]] = []
    for example in sorted(examples, key=len):
        if not pieces or (len(pieces[-1]) + 1) * len(example) > tokens:
            pieces.append([])
        pieces[-1].append(example)
    return pieces
