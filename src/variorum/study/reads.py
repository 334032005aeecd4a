"""What a pretrained arm costs where it only reads: a row of ids in, one forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from variorum.model import Model

WAY, ROWS = "read", 32
"""Its word among the ways to answer, and the rows that are read to see what one takes."""


class Reads:
    """The way of a model that is asked nothing but to read."""

    def recall(self, folder: Path) -> Any:
        """What :meth:`Reader.keep` wrote, ready to read rows one by one."""
        import torch

        from variorum.face import load

        model = load(folder / "model", head=None)
        writes = None not in (model.spec.architecture.encoder, model.spec.architecture.decoder)

        def read(rows: Sequence[Sequence[int]]) -> list[Any]:
            for row in rows:
                ids = torch.tensor([list(row)])
                with torch.inference_mode():
                    model(ids, decoder_input_ids=ids) if writes else model(ids)
            return []

        return read


class Reader:
    """An arm after its pretraining."""

    def __init__(self, model: Model, length: int) -> None:
        self.model, self.length = model, length

    def rows(self) -> list[list[int]]:
        """Rows of the length that it was trained on; which ids they hold is one to the clock."""
        vocab = self.model.spec.architecture.vocab
        return [[(row + i) % vocab for i in range(self.length)] for row in range(ROWS)]

    def keep(self, folder: Path) -> int:
        """Write the model as a published directory; its bytes."""
        from variorum.checkpoint import save

        save(self.model, folder / "model")
        return sum(one.stat().st_size for one in (folder / "model").rglob("*") if one.is_file())

    def flops(self, rows: Sequence[Sequence[int]]) -> int:
        """Forward operations of a row, by the spec."""
        from variorum.spec.size import size

        return size(self.model.spec, head=self.model.head_names, context=len(rows[0])).forward_flops
