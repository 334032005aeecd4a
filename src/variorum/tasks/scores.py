"""Scores of texts by a model's first head, in the order of the texts: read without padding where the model can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from variorum.model import Model

PADDED = 2048
"""Padded tokens at a time, where a model reads no streams."""


def scores(model: Model, encodings: Sequence[Any]) -> torch.Tensor:
    """What a head that judges whole texts says of each encoding, [N, labels], on the CPU."""
    import torch

    from variorum.inference.fused import fused
    from variorum.inference.packing import streams

    device, found = next(model.parameters()).device, [torch.empty(0)] * len(encodings)
    stacks = model.spec.architecture
    apart = not model.packs or (stacks.encoder is not None and stacks.decoder is not None)
    reader = model if apart or device.type != "cpu" else fused(model)
    reader.eval()
    with torch.no_grad():
        parts = _padded(model, encodings, device) if apart else _streamed(reader, streams(encodings, device=device))
        for texts, rows in parts:
            for text, row in zip(texts, rows.float().cpu(), strict=True):
                found[text] = row
    return torch.stack(found)


def _streamed(reader: Model, parts: Any) -> Any:
    from variorum.inference.encode import reads_segments

    segments = reads_segments(reader)
    for stream in parts:
        kinds = stream.token_type_ids if segments else None
        yield stream.texts, reader(stream.input_ids, token_type_ids=kinds, lengths=stream.lengths).logits


def _padded(model: Model, encodings: Sequence[Any], device: torch.device) -> Any:
    from variorum.inference.encode import tensors, tokenizer_of
    from variorum.inference.packing import groups

    tokenizer = tokenizer_of(model)
    for chosen in groups([len(one.ids) for one in encodings], PADDED):
        given = tensors(model, tokenizer.pad([encodings[i] for i in chosen]))
        given.pop("decoder_input_ids", None)  # a head that judges reads the text once more in the decoder
        yield chosen, model(**given).logits
