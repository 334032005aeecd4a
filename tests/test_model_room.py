"""What a forward makes room for: the scores that are asked for, never those of a whole prompt."""

from __future__ import annotations

import pytest
import torch

from tests.tiny_specs import tiny
from variorum.builder import build
from variorum.checks.counting import largest
from variorum.inference.writer import Writer
from variorum.training.feed import Dress

VOCAB, PROMPT = 128_000, 4096


@pytest.mark.case("V092")
@pytest.mark.mechanism("C18")
def test_a_long_prompt_is_scored_at_its_last_position_alone() -> None:
    """All positions would take 2 GiB; one takes half a megabyte."""
    sizes = {"input.vocab": VOCAB, "depth": 1, "block.attention.window": None}
    model = build(
        tiny("mistral", {f"architecture.decoder.{path}": value for path, value in sizes.items()}), head="causal_lm"
    )
    ids = torch.arange(PROMPT)[None] % 1000 + 6
    with torch.no_grad():
        table = model.get_parameter("decoder.input.table.weight").nbytes
        last = largest(lambda: model(ids, logits_to_keep=1))
        written = largest(lambda: Writer(model, ids.tolist()))
        assert max(last, written) <= max(table, 100e6) < PROMPT * VOCAB * 4 / 10
        short = ids[:, -64:]
        kept, whole = model(short, logits_to_keep=1).logits, model(short).logits[:, -1:]
    assert torch.equal(kept.argmax(-1), whole.argmax(-1)) and torch.allclose(kept, whole, atol=1e-5)


@pytest.mark.case("V092")
def test_a_batch_is_padded_to_its_longest_row_and_no_further() -> None:
    ids, mask = Dress()._padded([torch.arange(n).numpy() for n in (3, 7, 5)])
    assert ids.shape == (3, 7) and mask.sum(1).tolist() == [3, 7, 5]
