"""Which of several answers a model would rather give: every answer scored token by token after its prompt.

A prompt is read once, however many answers there are. A decoder goes on from the prompt; an encoder-decoder reads it
with its encoder and answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from variorum.errors import UsageError
from variorum.inference.generate import require_decoder
from variorum.inference.packing import groups
from variorum.inference.prefix import PrefixCache
from variorum.inference.writer import begin
from variorum.model import Model

#: Tokens of prompts that are read together, and numbers of scores that are held: answers x tokens x vocabulary.
TOKENS, SCORES = 4096, 2**26
#: Prompts that are read together: what is kept of each is copied for every answer.
PROMPTS = 8

Answers = Sequence[Sequence[int]]
"""Ids of each answer; an end token counts where an answer has one."""


@torch.no_grad()
def answer_scores(
    model: Model, prompts: Sequence[Sequence[int]], answers: Sequence[Answers], *, start: int | None = None,
    prefixes: PrefixCache | None = None,
) -> Tensor:  # fmt: skip
    """log p of each answer after its prompt, float64 [prompts, answers]: the sum over the answer's tokens.

    Args:
        model: a decoder or an encoder-decoder.
        prompts: ids that are read.
        answers: of each prompt, as many for each.
        start: what an encoder-decoder begins with; the spec's by default.
        prefixes: beginnings of earlier prompts, which are not read again.

    Raises:
        UsageError: a model that does not write, no answers, or an empty one.
    """
    require_decoder(model)
    if not all(len(row) and all(row) for row in answers):
        raise UsageError("there is an answer without a token", remedy="give answers of at least one")
    found = torch.empty(len(prompts), len(answers[0]) if answers else 0, dtype=torch.float64)
    most = max((len(row) * max(map(len, row)) for row in answers), default=1) * model.spec.architecture.vocab
    for rows in groups([max(1, len(prompt)) for prompt in prompts], TOKENS, max(1, min(PROMPTS, SCORES // most))):
        writer = begin(model, [prompts[row] for row in rows], start=start, prefixes=prefixes)
        first = writer.logits.double().log_softmax(-1)  # [rows, V]
        ids = [answer for row in rows for answer in answers[row]]
        owners = [place for place, row in enumerate(rows) for _ in answers[row]]
        total = first[owners, [answer[0] for answer in ids]]
        if long := [place for place, answer in enumerate(ids) if len(answer) > 1]:
            writer.select([owners[place] for place in long])
            rest = [torch.tensor(ids[place], device=first.device) for place in long]
            # What stands behind an answer's end is looked at by nobody.
            given = pad_sequence([answer[:-1] for answer in rest], batch_first=True)
            wanted = pad_sequence([answer[1:] for answer in rest], batch_first=True, padding_value=-1)
            scores = writer.step(given).double().log_softmax(-1)  # [long, tokens, V]
            each = scores.gather(-1, wanted.clamp(min=0)[..., None])[..., 0]
            total[long] += each.masked_fill(wanted < 0, 0.0).sum(-1)
        found[rows] = total.view(len(rows), -1).cpu()
    return found
