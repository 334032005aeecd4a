"""Batches of ragged random text for any objective, and the ids that a tiny vocabulary gives a meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tests.spec.shrunk import VOCAB
from variorum.objectives import Symbols

PAD, FIRST, END, MASK, STOP = 0, 1, 2, 3, 6
SENTINELS = (49, 48, 47, 46, 45, 44)
SYMBOLS = Symbols(
    vocab=VOCAB,
    special=frozenset((PAD, FIRST, END, MASK, *SENTINELS)),
    mask=MASK,
    pad=PAD,
    end=END,
    sentinels=SENTINELS,
    pair=((FIRST, 0), (None, 0), (END, 0), (None, 1), (END, 1)),
    stops=frozenset((STOP,)),
)
PAIRED = ("next_sentence", "sentence_order", "translation_lm", "contrastive")


def texts(rows: int, longest: int, seed: int = 0, *, whole: bool = False) -> list[Tensor]:
    """Texts of words alone, of different lengths unless they are to be ``whole``."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(longest // 2, longest + 1, (rows,), generator=generator)
    sizes[0] = longest
    return [torch.randint(6, 44, (longest if whole else int(n),), generator=generator) for n in sizes]


def padded(rows: list[Tensor], pad: int = PAD) -> tuple[Tensor, Tensor]:
    """[B, T], and 1 at real tokens."""
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, (torch.arange(ids.shape[1])[None] < lengths[:, None]).long()


def wrapped(rows: list[Tensor]) -> list[Tensor]:
    """Texts with their special tokens."""
    return [torch.cat((torch.tensor([FIRST]), row, torch.tensor([END]))) for row in rows]


def batch(kind: str, rows: int = 4, longest: int = 12, seed: int = 0, pad: int = PAD) -> dict[str, Tensor]:
    """What an objective of this kind is given."""
    if kind in PAIRED:
        made: dict[str, Tensor] = {"document": torch.arange(rows)}
        for side, shift in (("first", 0), ("second", 1)):
            own = texts(rows, longest // 2, 2 * seed + shift)
            made[side], made[f"{side}_mask"] = padded(wrapped(own) if kind == "contrastive" else own, pad)
        return made
    own = texts(rows, longest, seed)
    if kind in ("text_to_text", "seq2seq_lm"):
        ids, mask = padded(wrapped(own), pad)
        labels, real = padded([row[:5] for row in own])
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, "labels_mask": real}
    bare = kind in ("causal_lm", "prefix_lm", "bidirectional_lm", "span_corruption")
    if kind == "gap_sentences":
        own = [row.clone().index_fill_(0, torch.tensor([2, 4]), STOP) for row in own]
    ids, mask = padded(own if bare else wrapped(own), pad)
    return {"input_ids": ids, "attention_mask": mask}


def rows_of(example: Any, rows: slice) -> Any:
    """Some rows of a corrupted batch, counts told anew: a piece of a step."""
    import dataclasses

    from variorum.objectives.masked import PAIR
    from variorum.objectives.replaced import JUDGED

    def cut(held: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: value[rows] for name, value in held.items()}

    beside = cut(example.beside)
    counts = {}
    for name in example.counts:
        counts[name] = int((beside[PAIR] >= 0).sum()) if name == PAIR else int(beside["real"].sum())
    assert JUDGED in counts or len(counts) == len(example.counts)
    return dataclasses.replace(
        example, inputs=cut(example.inputs), targets=example.targets[rows], beside=beside, counts=counts
    )
