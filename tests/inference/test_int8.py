"""An encoder with int8 weights reads a text as it reads it among others, and near to what float32 reads."""

from __future__ import annotations

import pytest
import torch

from tests.tiny_specs import ENCODERS, made, run, words
from variorum.inference.fused import fused
from variorum.inference.int8 import CodedLinear
from variorum.inference.prepared import prepare


@pytest.mark.parametrize("name", ENCODERS)
def test_int8_states_point_where_float32_states_do(name):
    plain, ids = made(name).float().eval(), words(2, 12)
    coded = prepare(plain, "int8")
    assert any(isinstance(part, CodedLinear) for part in coded.modules())
    with torch.no_grad():
        right, ours = run(plain, ids).last_hidden_state, run(coded, ids).last_hidden_state
    assert float(torch.cosine_similarity(right.flatten(), ours.flatten(), 0)) > 0.99


def test_a_stream_in_int8_is_its_texts_one_by_one():
    coded = fused(prepare(made("bert").float().eval(), "int8"))
    ids, lengths = words(1, 30), (12, 12, 6)
    with torch.no_grad():
        stream = coded(ids, lengths=lengths).last_hidden_state
        apart = [coded(one, lengths=(one.shape[1],)).last_hidden_state for one in ids.split(lengths, 1)]
    # A state on the border of two codes may fall to either side.
    assert float((stream - torch.cat(apart, 1)).abs().mean()) <= 1e-4 * float(stream.std())
