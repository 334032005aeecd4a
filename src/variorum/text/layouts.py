"""How a family numbers the pieces of its SentencePiece model: as they are, as fairseq does, or as Pegasus does.

Each function takes a model and the family's language codes, and gives the published id of every piece and the spelling
of every published id. Tokens that a directory adds on its own come after these, by :mod:`variorum.text.dressing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import DamagedFile
from .pieces import PieceModel

Layout = Callable[[PieceModel, Sequence[str]], tuple[list[int], list[str]]]

# Pegasus puts its masks and further unknowns between </s> and the model's third piece (google-research/pegasus,
# ops/pretrain_parsing_ops.cc): 103 ids more than the model has.
PEGASUS_RESERVED = ("<mask_1>", "<mask_2>", *(f"<unk_{number}>" for number in range(2, 103)))


def plain(model: PieceModel, languages: Sequence[str]) -> tuple[list[int], list[str]]:
    """The model's own ids."""
    return list(range(model.size)), list(model.names)


def fairseq(model: PieceModel, languages: Sequence[str]) -> tuple[list[int], list[str]]:
    """fairseq's dictionary: <s>, <pad>, </s>, <unk>, the model's pieces from its fourth on, languages, then <mask>."""
    if model.size < 3 or model.processor.unk_id() != 0:
        raise DamagedFile("the model's first three pieces are not <unk>, <s>, </s>", where=model.where)
    names = ["<s>", "<pad>", "</s>", "<unk>", *model.names[3:], *languages, "<mask>"]
    return [3, 0, 2, *range(4, model.size + 1)], names


def pegasus(model: PieceModel, languages: Sequence[str]) -> tuple[list[int], list[str]]:
    """<pad> and </s> stay; every other piece moves up by 103."""
    if model.names[:2] != ["<pad>", "</s>"]:
        raise DamagedFile("the model's first two pieces are not <pad>, </s>", where=model.where)
    names = [*model.names[:2], *PEGASUS_RESERVED, *model.names[2:]]
    offset = len(PEGASUS_RESERVED)
    return [0, 1, *range(2 + offset, model.size + offset)], names
