"""Which of several answers a model would rather give: every answer scored token by token after every prompt.

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
from variorum.inference.lines import wide
from variorum.inference.writer import begin
from variorum.model import Model

#: Numbers of scores that are held at once: prompts x answers x tokens x vocabulary.
SCORES = 2**26


@torch.no_grad()
def answer_scores(
    model: Model, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], *, start: int | None = None
) -> Tensor:
    """log p of each answer after each prompt, float64 [prompts, answers]: the sum over the answer's tokens.

    Args:
        model: a decoder or an encoder-decoder.
        prompts: ids that are read.
        answers: ids that may follow; an end token counts where an answer has one.
        start: what an encoder-decoder begins with; the spec's by default.

    Raises:
        UsageError: a model that does not write, no answers, or an empty one.
    """
    require_decoder(model)
    if not answers or not all(answers):
        raise UsageError("there is an answer without a token", remedy="give answers of at least one")
    longest, vocab = max(map(len, answers)), model.spec.architecture.vocab
    size = max(1, SCORES // (len(answers) * longest * vocab))
    groups = [prompts[at : at + size] for at in range(0, len(prompts), size)]
    if not groups:
        return torch.empty(0, len(answers), dtype=torch.float64)
    return torch.cat([_scores(model, group, answers, start) for group in groups])


def _scores(
    model: Model, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], start: int | None
) -> Tensor:
    """Those of prompts that are read together."""
    writer = begin(model, prompts, start=start)
    scores = wide(writer.logits)[:, None].repeat_interleave(len(answers), 0)
    # What stands behind an answer's end is looked at by nobody.
    rows = [torch.tensor(one, device=scores.device) for one in answers]
    ids = pad_sequence(rows, batch_first=True).repeat(len(prompts), 1)
    real = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True).repeat(len(prompts), 1)
    if ids.shape[1] > 1:
        writer.select([row for row in range(len(prompts)) for _ in answers])
        scores = torch.cat((scores, wide(writer.step(ids[:, :-1]))), 1)
    chosen = scores.log_softmax(-1).gather(-1, ids[..., None])[..., 0].double()
    return (chosen * real).sum(-1).view(len(prompts), len(answers))
