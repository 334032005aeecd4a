"""Writing left to right: greedy, over a cache, one text or many of different lengths."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from variorum.attention.cache import Cache
from variorum.errors import UsageError
from variorum.model import Model


@dataclasses.dataclass(frozen=True)
class Written:
    """One row of new tokens. ``log_probabilities`` has one entry per token, the end token included."""

    ids: list[int]
    log_probabilities: list[float]
    stopped: bool


def require_decoder(model: Model) -> None:
    """Refuse what cannot write.

    Raises:
        UsageError: an encoder, or a model without a language-model head.
    """
    name = model.spec.name
    if not model.is_decoder:
        raise UsageError(
            f"{name} is an encoder: its attention is bidirectional, so it cannot generate left to right",
            remedy="use fill-mask or embed, or a decoder such as gpt2 or llama",
        )
    if not {"causal_lm", "seq2seq_lm"} & set(model.head_names):
        raise UsageError(f"{name} was loaded without a language-model head", remedy="load it with head='causal_lm'")


@torch.no_grad()
def generate(
    model: Model, prompts: Sequence[Sequence[int]], *, max_new_tokens: int = 20, end_ids: Sequence[int] = (),
    use_cache: bool = True,
) -> list[Written]:  # fmt: skip
    """The most likely continuation of each prompt, token by token; ties go to the lowest id.

    Args:
        prompts: B lists of ids (an encoder-decoder's source texts).
        max_new_tokens: at most so many, the end token included.
        end_ids: any of these ends its row; the others go on.
        use_cache: False recomputes everything each step, with the same result.

    Raises:
        UsageError: see :func:`require_decoder`; or an empty prompt that no begin token makes up for.
    """
    require_decoder(model)
    if not prompts:
        return []
    ends = frozenset(end_ids)
    rows: list[list[tuple[int, float]]] = [[] for _ in prompts]
    done = [False] * len(prompts)
    stepper = _steps(model, prompts, use_cache=use_cache)
    chosen: Tensor | None = None
    for _ in range(max_new_tokens):
        logits = next(stepper) if chosen is None else stepper.send(chosen)
        scores = logits.float().log_softmax(-1)
        chosen = scores.argmax(-1)
        for row, token in enumerate(chosen.tolist()):
            if not done[row]:
                rows[row].append((token, float(scores[row, token])))
                done[row] = token in ends
        if all(done):
            break
    return [Written([t for t, _ in row], [p for _, p in row], end) for row, end in zip(rows, done, strict=True)]


def _steps(model: Model, prompts: Sequence[Sequence[int]], *, use_cache: bool) -> Generator[Tensor, Tensor, None]:
    """Yields next-token logits [B, V]; is sent the chosen tokens [B]."""
    device = next(model.parameters()).device
    ids, mask = _padded(prompts, device)
    writes = model.spec.architecture.encoder is not None
    if ids.shape[1] == 0:
        raise UsageError("an empty prompt gives nothing to continue", remedy="give at least one token")
    cache = Cache(model.spec.architecture.main.depth) if use_cache else None
    if writes:
        start = model.spec.architecture.main.input.start_id
        written = torch.full((len(prompts), 1), start or 0, device=device)
        fresh = written
        while True:
            given = written if cache is None else fresh
            out = model(ids, attention_mask=mask, decoder_input_ids=given, cache=cache, logits_to_keep=1)
            fresh = (yield out.logits[:, -1])[:, None]
            written = torch.cat((written, fresh), 1)
    out = model(ids, attention_mask=mask, cache=cache, logits_to_keep=1)
    while True:
        fresh = (yield out.logits[:, -1])[:, None]
        if cache is None:
            ids = torch.cat((ids, fresh), 1)
            mask = None if mask is None else torch.cat((mask, mask.new_ones(len(mask), 1)), 1)
            out = model(ids, attention_mask=mask, logits_to_keep=1)
        else:
            out = model(fresh, cache=cache, logits_to_keep=1)


def _padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor | None]:
    """Prompts padded on the left, [B, T], and their mask; no mask when all are equally long."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + list(p) for p in prompts], dtype=torch.long, device=device)
    if all(len(p) == longest for p in prompts):
        return ids, None
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts], device=device)
    return ids, mask
