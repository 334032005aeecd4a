"""What a model's first head says of every token of a text, in the order of the texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from variorum.tasks.scores import PADDED

if TYPE_CHECKING:
    import torch

    from variorum.attention.output import Output
    from variorum.face import Model


def token_scores(model: Model, encodings: Sequence[Any]) -> list[torch.Tensor]:
    """Scores [T, n] of the T tokens of each encoding, float32 on the CPU; texts without a token have none."""
    import torch

    found: list[torch.Tensor] = [torch.empty(0)] * len(encodings)
    for texts, out in readings(model, encodings):
        for text, row in zip(texts, by_text(out, [encodings[text] for text in texts]), strict=True):
            found[text] = row
    return found


def by_text(out: Output, encodings: Sequence[Any]) -> list[torch.Tensor]:
    """The scores of one reading, apart for each text that was read: [T, n], float32 on the CPU."""
    assert out.logits is not None
    rows, lengths = out.logits.float().cpu(), [len(one.ids) for one in encodings]
    if len(rows) == 1:
        return list(rows[0, : sum(lengths)].split(lengths))
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def readings(model: Model, encodings: Sequence[Any], *, padded: bool = False) -> Iterator[tuple[Sequence[int], Output]]:
    """Which texts, and what the model says of them: a row each, padded on the right, or of a stream one for all.

    Args:
        padded: read rows even where the model could read streams.
    """
    import torch

    from variorum.inference.encode import reads_segments
    from variorum.inference.fused import fused
    from variorum.inference.packing import streams

    stacks, device = model.spec.architecture, next(model.parameters()).device
    model.eval()
    with torch.no_grad():
        if padded or not model.packs or (stacks.encoder is not None and stacks.decoder is not None):
            yield from _rows(model, encodings)
            return
        reader = fused(model) if device.type == "cpu" else model
        for stream in streams(encodings, device=device):
            kinds = stream.token_type_ids if reads_segments(model) else None
            yield stream.texts, reader(stream.input_ids, token_type_ids=kinds, lengths=stream.lengths)


def _rows(model: Model, encodings: Sequence[Any]) -> Iterator[tuple[Sequence[int], Output]]:
    from variorum.inference.encode import tensors, tokenizer_of
    from variorum.inference.packing import groups

    for texts in groups([len(one.ids) for one in encodings], PADDED):
        given = tensors(model, tokenizer_of(model).pad([encodings[text] for text in texts], side="right"))
        given.pop("decoder_input_ids", None)  # the decoder reads the text itself, one step late
        yield texts, model(**given)
