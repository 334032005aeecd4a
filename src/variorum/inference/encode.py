"""Reading: sentence embeddings and the words a mask could stand for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from variorum.attention.packed import apart
from variorum.errors import UsageError
from variorum.inference.sentences import Recipe, recipe_for
from variorum.model import Model
from variorum.parts.heads import EmbeddingHead
from variorum.parts.where import order_from_mask
from variorum.spec.positions import Learned

SPARE = "(spare row)"  # many tables have more rows than their tokenizer has tokens


def longest_input(model: Model) -> int | None:
    """The most tokens the model takes, or ``None`` where nothing limits it."""
    arch = model.spec.architecture
    positions = (arch.main.input if arch.stacks else arch.source).positions
    return positions.rows - positions.offset if isinstance(positions, Learned) else None


def tokenizer_of(model: Model) -> Any:
    """The model's tokenizer.

    Raises:
        UsageError: it has none.
    """
    if model.tokenizer is None:
        raise UsageError(f"{model.spec.name} has no tokenizer", remedy="load it from a directory with tokenizer files")
    return model.tokenizer


def tensors(model: Model, batch: Any) -> dict[str, Tensor]:
    """A tokenizer's batch as the inputs this model takes."""
    device = next(model.parameters()).device
    encoder = model.spec.architecture.encoder
    given = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    if encoder is not None and (encoder.tokens.segments > 1 or getattr(encoder.positions, "segments", False)):
        given["token_type_ids"] = batch.token_type_ids
    found = {name: torch.as_tensor(value, device=device).long() for name, value in given.items()}
    if encoder is not None and model.is_decoder:
        # Reading needs one step of the decoder; what it writes is not looked at.
        start = model.spec.architecture.main.tokens.start_id
        first = start if isinstance(start, int) else 0
        found["decoder_input_ids"] = torch.full((len(batch.input_ids), 1), first, device=device)
    return found


@torch.no_grad()
def embed(
    model: Model, texts: Sequence[str], *, batch_size: int = 32, recipe: Recipe | None = None, prompt: str | None = None
) -> tuple[Tensor, int]:
    """Sentence vectors [N, D] in input order, and how many texts were cut to the model's length.

    Args:
        model: any that reads text; of an encoder-decoder the encoder is read.
        texts: what to read.
        batch_size: texts at a time.
        recipe: how; by default as the model's directory or spec says.
        prompt: the name of what is put before each text ("query", "passage"), where the recipe has such.

    Raises:
        NotFound: no prompt of that name.
        DamagedFile: the directory asks for what is not implemented.
    """
    tokenizer = tokenizer_of(model)
    recipe = recipe or recipe_for(model)
    before = recipe.before(prompt, model.spec.name)
    unread = 0 if recipe.counts_prompt or not before else _wrapped(tokenizer, before)
    limit = min((n for n in (longest_input(model), tokenizer.model_max_length, recipe.longest) if n), default=None)
    encodings = tokenizer.encode_batch([before + text for text in texts], max_length=limit)
    order = sorted(range(len(texts)), key=lambda i: -len(encodings[i]))
    rows: list[Tensor | None] = [None] * len(texts)
    pool = EmbeddingHead(recipe.head)
    for start in range(0, len(order), batch_size):
        which = order[start : start + batch_size]
        states, places = read(model, [encodings[i] for i in which])
        for i, vector in zip(which, pool(states, places.masked_fill(places < unread, -1)), strict=True):
            rows[i] = vector
    width = model.spec.architecture.width
    stacked = torch.stack(rows) if rows else torch.empty(0, width)  # type: ignore[arg-type]
    return stacked, sum(e.n_truncated > 0 for e in encodings)


def read(model: Model, encodings: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Last states of each text, of an encoder-decoder those of the encoder, [B, T, D], and their order [B, T].

    The texts are read end to end without padding where the model can; -1 in the order says that a state is nobody's.
    """
    given = tensors(model, tokenizer_of(model).pad(encodings))
    mask = given["attention_mask"]
    if not model.packs:
        out = model(**given, logits_to_keep=1)
        states = out.last_hidden_state if out.encoder_last_hidden_state is None else out.encoder_last_hidden_state
        return states, order_from_mask(mask, states.shape[1], states.device)
    lengths, real = mask.sum(-1).tolist(), given.pop("attention_mask").bool()
    streams = {name: given.pop(name)[real][None] for name in ("input_ids", "token_type_ids") if name in given}
    out = model(**streams, **given, lengths=lengths, logits_to_keep=1)
    if out.encoder_last_hidden_state is None:
        return apart(out.last_hidden_state, lengths)
    states = out.encoder_last_hidden_state
    return states, order_from_mask(mask.sort(-1, descending=True).values, states.shape[1], states.device)


def _wrapped(tokenizer: Any, text: str) -> int:
    """Tokens of ``text`` alone, without the one that ends it."""
    ids = tokenizer.encode(text).ids
    return len(ids) - (1 if ids and ids[-1] in tokenizer.special_ids else 0)


@dataclasses.dataclass(frozen=True)
class Guess:
    """One candidate for a mask: which mask (from 0), the token, its probability, and the text with it filled in."""

    mask: int
    token: str
    id: int
    probability: float
    text: str


@torch.no_grad()
def fill_mask(model: Model, text: str, *, top_k: int = 5) -> list[Guess]:
    """The ``top_k`` likeliest tokens for every mask in ``text``, best first.

    Raises:
        UsageError: the model has no masked-LM head, or the text no mask, or it is too long.
    """
    if "masked_lm" not in model.head_names:
        raise UsageError(
            f"{model.spec.name} has no masked-language-model head loaded", remedy="it needs a masked_lm checkpoint"
        )
    tokenizer = tokenizer_of(model)
    encoding = tokenizer.encode(text, allow_special_text=True)
    places = [i for i, token in enumerate(encoding.ids) if token == tokenizer.mask_id]
    if not places:
        raise UsageError(
            "the text has no mask", remedy=f"write {tokenizer.special.get('mask')} where a word is missing"
        )
    logits = model(**tensors(model, tokenizer.pad([encoding]))).logits
    guesses = []
    for number, place in enumerate(places):
        best = logits[0, place].float().softmax(-1).topk(min(top_k, logits.shape[-1]))
        for probability, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            name = tokenizer.id_to_token(token) if token < tokenizer.vocab_size else SPARE
            filled = _filled(text, encoding.offsets[place], _word(tokenizer, token))
            guesses.append(Guess(number, name, token, probability, filled))
    return guesses


def _word(tokenizer: Any, token: int) -> str:
    """A token as it stands in a text; nothing for a spare row of the table, which has no spelling."""
    if token >= tokenizer.vocab_size:
        return ""
    word = str(tokenizer.decode([token], skip_special=False)).strip()
    return word.removeprefix("##") if tokenizer.kind == "wordpiece" else word


def _filled(text: str, span: tuple[int, int], word: str) -> str:
    """``text`` with ``word`` where the mask was; a mask token may have taken the space before it along."""
    start, end = span
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return text[:start] + word + text[end:]
