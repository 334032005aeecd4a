"""Sentence vectors: texts read as packed streams, their states pooled to one vector each.

On a CPU an encoder reads in its fused form (:mod:`.fused`), which is made on the first call, holds no weights of its
own and follows those of the model. A model that was prepared is used as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.attention.reading import Reading
from variorum.inference.encode import longest_input, reads_segments, tensors, tokenizer_of
from variorum.inference.fused import fused, is_current
from variorum.inference.packing import TOKENS, Stream, streams
from variorum.inference.sentences import Recipe, recipe_for
from variorum.model import Model
from variorum.parts.heads import EmbeddingHead
from variorum.spec.heads import EmbeddingHead as Pooling

PADDED = 32  # texts at a time, where a model reads no streams
_FUSED: WeakKeyDictionary[Model, Model] = WeakKeyDictionary()
_RECIPES: WeakKeyDictionary[Model, tuple[Any, Any, Recipe]] = WeakKeyDictionary()


def embed(
    model: Model, texts: Sequence[str], *, batch_size: int | None = None, recipe: Recipe | None = None,
    prompt: str | None = None,
) -> tuple[Tensor, int]:  # fmt: skip
    """Sentence vectors [N, D] in input order, and how many texts were cut to the model's length.

    Args:
        model: any that reads text; of an encoder-decoder the encoder is read.
        texts: what to read.
        batch_size: texts at a time; by default as many as make up :data:`~.packing.TOKENS` tokens.
        recipe: how; by default as the model's directory or spec says.
        prompt: the name of what is put before each text ("query", "passage"), where the recipe has such.

    Raises:
        NotFound: no prompt of that name.
        DamagedFile: the directory asks for what is not implemented.
    """
    tokenizer = tokenizer_of(model)
    recipe = recipe or _recipe(model)
    before = recipe.before(prompt, model.spec.name)
    unread = 0 if recipe.counts_prompt or not before else _wrapped(tokenizer, before)
    limit = min((n for n in (longest_input(model), tokenizer.model_max_length, recipe.longest) if n), default=None)
    encodings = tokenizer.encode_batch([before + text for text in texts], max_length=limit)
    vectors = read(model, encodings, recipe.head, unread=unread, batch_size=batch_size)
    return vectors, sum(one.n_truncated > 0 for one in encodings)


def read(
    model: Model, encodings: Sequence[Any], pooling: Pooling, *, unread: int = 0, batch_size: int | None = None
) -> Tensor:
    """One vector of each encoded text, [N, D]; its first ``unread`` tokens are read but not pooled."""
    first = next(model.parameters())
    # Made outside of inference mode, so that callers may learn from it.
    vectors = first.new_zeros(len(encodings), model.spec.architecture.width)
    with torch.inference_mode():
        for texts, found in _read(model, encodings, pooling, unread, batch_size):
            vectors[texts] = found
    return vectors


def _read(
    model: Model, encodings: Sequence[Any], pooling: Pooling, unread: int, batch_size: int | None
) -> Iterator[tuple[Any, Tensor]]:
    """Which texts, and their vectors."""
    if not model.packs:
        size = batch_size or PADDED
        for start in range(0, len(encodings), size):
            rows = slice(start, start + size)
            yield rows, _padded(model, encodings[rows], pooling, unread)
        return
    reader, segments = reading_form(model), reads_segments(model)
    device = next(model.parameters()).device
    tokens = TOKENS if batch_size is None else sum(len(one) for one in encodings)
    for stream in streams(encodings, tokens=tokens, texts=batch_size, device=device):
        kinds = stream.token_type_ids if segments else None
        states, _ = reader.read(Reading(data=stream.input_ids, segments=kinds, lengths=stream.lengths))
        yield list(stream.texts), pooled(states[0], stream, pooling, unread)


def reading_form(model: Model) -> Model:
    """The form in which ``model`` reads fastest without other weights; itself where that is so already."""
    made = _FUSED.get(model)
    if made is None or not is_current(made, model):
        made = fused(model)
        if made is not model:
            _FUSED[model] = made
    return made


def pooled(states: Tensor, stream: Stream, pooling: Pooling, unread: int = 0) -> Tensor:
    """States of a stream [total, D] -> a vector for each of its texts, without its first ``unread`` states."""
    lengths = torch.tensor(stream.lengths, device=states.device)
    if unread:
        places = torch.arange(len(states), device=states.device)
        starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
        states, lengths = states[places - starts >= unread], (lengths - unread).clamp(min=0)
    ends = lengths.cumsum(0)
    if pooling.take == "first":
        vectors = states[ends - lengths]
    elif pooling.take == "last":
        vectors = states[ends - 1]
    else:
        vectors = torch.segment_reduce(states, pooling.take, lengths=lengths)
    return F.normalize(vectors, dim=-1) if pooling.normalise else vectors


def _padded(model: Model, encodings: Sequence[Any], pooling: Pooling, unread: int) -> Tensor:
    """The same of a model that reads no streams: padded rows."""
    given = tensors(model, tokenizer_of(model).pad(encodings))
    states, where = model.read(Reading(
        data=given["input_ids"], mask=given["attention_mask"], segments=given.get("token_type_ids")
    ))  # fmt: skip
    places = where.q_order
    return EmbeddingHead(pooling)(states, places.masked_fill(places < unread, -1))


def _recipe(model: Model) -> Recipe:
    """As the model's directory or spec says; read once."""
    known, asked = _RECIPES.get(model), getattr(model.origin, "asked", None)
    if known is None or known[0] is not model.origin or known[1] is not asked:
        known = _RECIPES[model] = model.origin, asked, recipe_for(model)
    return known[2]


def _wrapped(tokenizer: Any, text: str) -> int:
    """Tokens of ``text`` alone, without the one that ends it."""
    ids = tokenizer.encode(text).ids
    return len(ids) - (1 if ids and ids[-1] in tokenizer.special_ids else 0)
