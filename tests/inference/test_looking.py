"""What a model looks at when it answers is counted as by hand, for both kinds of model, beside a uniform gaze."""

from __future__ import annotations

import math

import pytest
import torch

from tests.tiny_specs import made
from variorum.errors import UsageError
from variorum.inference.looking import Gaze, Question, gaze

IDS, SPAN, ASKING = [7, 8, 9, 10, 11, 12, 13, 14, 15], (5, 7), (1, 4)


def by_hand(maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Share and entropy [layers, heads] of maps [layers, heads, looking, T]."""
    share = torch.zeros(maps.shape[:2], dtype=torch.float64)
    entropy = torch.zeros_like(share)
    for layer, head in ((i, j) for i in range(maps.shape[0]) for j in range(maps.shape[1])):
        rows = maps[layer, head].tolist()
        share[layer, head] = sum(row[5] + row[6] for row in rows) / len(rows)
        entropy[layer, head] = sum(-p * math.log(p) for row in rows for p in row) / len(rows)
    return share, entropy


@torch.no_grad()
@pytest.mark.mechanism("H8")
@pytest.mark.parametrize(
    ("name", "head"), [("bert", "question_answering"), ("t5", "seq2seq_lm"), ("bart", "seq2seq_lm")]
)
def test_the_share_of_the_answer_is_that_of_the_maps(name: str, head: str) -> None:
    model = made(name, head)
    writes = model.is_decoder
    answer = [0, 12, 13] if writes else []
    given = {"decoder_input_ids": torch.tensor([answer])} if writes else {}
    out = model(torch.tensor([IDS]), output_attentions=True, **given)
    maps = torch.stack([one[0] for one in (out.cross_attentions if writes else out.attentions)])
    share, entropy = by_hand(maps if writes else maps[:, :, 1:4])
    found = gaze(model, [Question(ids=IDS, asking=ASKING, span=SPAN, answer=answer)])
    assert torch.allclose(found.share, share, atol=1e-12)
    assert torch.allclose(found.entropy, entropy, atol=1e-10)
    assert (found.uniform_share, found.uniform_entropy) == (2 / 9, math.log(9))
    layer, best = found.best
    assert float(found.share[layer, best]) == float(share.max())


@torch.no_grad()
@pytest.mark.mechanism("H8")
def test_questions_count_alike() -> None:
    model = made("t5", "seq2seq_lm")
    both = [
        Question(ids=IDS, asking=ASKING, span=SPAN, answer=[0, 12]),
        Question(ids=IDS[:4], asking=(0, 2), span=(2, 3), answer=[0]),
    ]
    found, apart = gaze(model, both), [gaze(model, [one]) for one in both]
    assert torch.allclose(found.share, (apart[0].share + apart[1].share) / 2)
    assert found.uniform_share == pytest.approx((2 / 9 + 1 / 4) / 2)
    assert isinstance(found, Gaze)


def test_what_has_no_context_of_its_own_is_refused() -> None:
    with pytest.raises(UsageError, match="no context"):
        gaze(made("gpt2", "causal_lm"), [Question(ids=IDS, asking=ASKING, span=SPAN)])
    model = made("bert", "question_answering")
    with pytest.raises(UsageError, match="no question"):
        gaze(model, [])
    with pytest.raises(UsageError, match="no answer"):
        gaze(model, [Question(ids=IDS, asking=ASKING, span=(8, 10))])
