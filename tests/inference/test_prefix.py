"""What many texts begin with is read once; what follows is scored as if it had been read with each of them."""

from __future__ import annotations

import pytest
import torch

from tests.tiny_specs import CACHED, gap, made, tiny, words
from variorum.attention.cache import CachePlan
from variorum.errors import UsageError
from variorum.inference.prefix import PrefixCache
from variorum.inference.writer import Writer, begin
from variorum.model import Model
from variorum.spec.positions import DynamicNtkScaling

PIECE = 4


def texts(*ends: int) -> list[list[int]]:
    """Eleven tokens alike, then so many of each one's own."""
    start = words(1, 11, seed=1)[0].tolist()
    return [[*start, *words(1, end, seed=end)[0].tolist()] for end in ends]


def counted(model: Model) -> list[int]:
    """How many tokens each call reads."""
    read: list[int] = []
    model.decoder.input.register_forward_hook(lambda module, given, out: read.append(out.shape[1]))
    return read


@pytest.mark.mechanism("K1", "K6")
@pytest.mark.parametrize("kind", ["auto", "paged"])
@pytest.mark.parametrize("name", CACHED)
def test_a_known_beginning_changes_no_bit_of_what_is_scored(name, kind):
    model, plan = made(name, "causal_lm").float(), CachePlan(kind=kind, page=4, undo=2)
    known = PrefixCache(model, 10**8, PIECE)
    begin(model, texts(3), plan, prefixes=known)
    for prompt in texts(1, 6, 9):
        again = begin(model, [prompt], plan, prefixes=known)
        fresh = begin(model, [prompt], plan, prefixes=PrefixCache(model, 10**8, PIECE))
        assert torch.equal(again.logits, fresh.logits)
        for at in range(3):
            ids = words(1, 1, seed=at)
            assert torch.equal(again.step(ids), fresh.step(ids))
    assert known.reused == 3 * 8
    model.double()
    exact = [begin(model, texts(5), plan, prefixes=prefixes) for prefixes in (PrefixCache(model, 10**8, PIECE), None)]
    assert gap(exact[0].logits, exact[1].logits) < 1e-12


@pytest.mark.mechanism("K5")
def test_int8_beginnings_are_kept_as_they_are_and_apart_from_exact_ones():
    model, plan = made("llama", "causal_lm"), CachePlan(numbers="int8")
    known = PrefixCache(model, 10**8, PIECE)
    first = begin(model, texts(3), plan, prefixes=known)
    assert torch.equal(begin(model, texts(3), plan, prefixes=known).logits, first.logits) and known.reused == 12
    begin(model, texts(3), prefixes=known)
    assert known.reused == 12


def test_rows_of_one_call_read_their_common_beginning_once():
    model = made("gpt2", "causal_lm")
    read = counted(model)
    begin(model, texts(3, 5, 2), prefixes=PrefixCache(model, 10**8, PIECE))
    assert sum(read) == 14 + 8 + 5
    read.clear()
    begin(model, texts(3, 5, 2), CachePlan(kind="paged", page=4))
    assert sum(read) == 14 + 5 + 2, "pages are shared to the token"


def test_only_so_many_bytes_are_kept_and_what_was_used_longest_ago_goes_first():
    model = made("gpt2", "causal_lm")
    piece = 6 * 2 * 4 * 8 * PIECE * 8  # layers, keys and values, heads, channels, tokens, bytes
    known = PrefixCache(model, 3 * piece, PIECE)
    one, other = words(1, 9, seed=5)[0].tolist(), words(1, 9, seed=6)[0].tolist()
    begin(model, [one], prefixes=known)
    assert known.bytes == 2 * piece
    begin(model, [other], prefixes=known)
    assert known.bytes == 3 * piece
    assert (known.known(one, CachePlan()), known.known(other, CachePlan())) == (PIECE, 2 * PIECE)
    begin(model, [one], prefixes=known)
    assert (known.known(one, CachePlan()), known.known(other, CachePlan())) == (2 * PIECE, PIECE)
    tight = PrefixCache(model, piece - 1, PIECE)
    begin(model, [one], prefixes=tight)
    assert tight.bytes == 0


def test_the_last_token_is_always_read():
    model = made("gpt2", "causal_lm")
    known, prompt = PrefixCache(model, 10**8, PIECE), words(1, 8)[0].tolist()
    first = begin(model, [prompt], prefixes=known)
    again = begin(model, [prompt], prefixes=known)
    assert known.reused == PIECE and torch.equal(first.logits, again.logits)


def test_other_weights_forget_what_was_read_with_these():
    model = made("gpt2", "causal_lm")
    known = PrefixCache(model, 10**8, PIECE)
    begin(model, texts(3), prefixes=known)
    with torch.no_grad():
        model.decoder.layers[0].attention.key.weight.mul_(1.5)
    changed = begin(model, texts(3), prefixes=known)
    assert known.reused == 0 and gap(changed.logits, begin(model, texts(3)).logits) < 1e-12


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("t5", "depends on its source"),
        ("transformer-xl", "remembers states, not keys"),
        ("mistral", "rings of 6 tokens"),
    ],
)
def test_what_cannot_begin_with_anothers_keys_says_so(name, says):
    model = made(name, "seq2seq_lm" if name == "t5" else "causal_lm")
    with pytest.raises(UsageError, match=says):
        begin(model, texts(3), prefixes=PrefixCache(model, 10**8, 8))


def test_prefixes_need_their_own_model_something_kept_and_keys_that_stay():
    model, other = made("gpt2", "causal_lm"), made("gpt2", "causal_lm")
    known = PrefixCache(model, 10**8)
    with pytest.raises(UsageError, match="read by another model"):
        begin(other, texts(3), prefixes=known)
    with pytest.raises(UsageError, match="nothing is kept"):
        Writer(model, texts(3), None, prefixes=known)
    with pytest.raises(UsageError, match="a piece of 0 tokens"):
        PrefixCache(model, 10**8, 0)
    turning = made(
        tiny("llama", {"architecture.decoder.positions.scaling": DynamicNtkScaling(factor=4.0, original_length=6)}),
        "causal_lm",
    )
    with pytest.raises(UsageError, match="turns its keys by the length"):
        begin(turning, texts(3), prefixes=PrefixCache(turning, 10**8))
