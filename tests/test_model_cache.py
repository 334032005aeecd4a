"""Decoding from a cache is the same computation: token by token, in chunks, padded, and across to an encoder."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import CACHED, DECODERS, NAMES, SEQ2SEQ, gap, lm_head, made, tiny, words
from variorum.attention.cache import Cache
from variorum.errors import UsageError
from variorum.inference.generate import generate
from variorum.model import Model
from variorum.spec.positions import DynamicNtkScaling, Rotary

WRITERS = [*CACHED, *SEQ2SEQ]


def stepped(model: Model, ids: Tensor, cuts: list[int], mask: Tensor | None = None) -> Tensor:
    """States of ``ids`` fed in pieces that end at ``cuts``; an encoder-decoder reads one fixed source."""
    cache, pieces = Cache(), []
    for start, end in zip([0, *cuts], [*cuts, ids.shape[1]], strict=True):
        piece, given = ids[:, start:end], {"cache": cache}
        if model.spec.architecture.encoder is not None:
            out = model(words(len(ids), 9, seed=5), decoder_input_ids=piece, **given)
        else:
            out = model(piece, attention_mask=None if mask is None else mask[:, start:end], **given)
        pieces.append(out.last_hidden_state)
    assert cache.length == ids.shape[1]
    return torch.cat(pieces, 1)


def whole(model: Model, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    if model.spec.architecture.encoder is not None:
        return model(words(len(ids), 9, seed=5), decoder_input_ids=ids).last_hidden_state
    return model(ids, attention_mask=mask).last_hidden_state


@pytest.mark.mechanism("K1", "G2")
@pytest.mark.case("V014")
@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_cache_gives_what_recomputing_everything_gives(name, backend):
    model, ids = made(name), words(2, 14)
    model.backend = backend
    with torch.no_grad():
        right = whole(model, ids)
        assert gap(stepped(model, ids, list(range(1, 14))), right) < 1e-12
        assert gap(stepped(model, ids, [3, 5]), right) < 1e-12  # a chunk of 2 over a cache of 3


@pytest.mark.mechanism("K1")
@pytest.mark.parametrize("name", CACHED)
def test_padding_on_the_left_does_not_disturb_what_is_written_from_a_cache(name):
    model, ids = made(name), words(2, 12)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :4] = 0
    with torch.no_grad():
        alone = whole(model, ids[1:, 4:])
        padded = stepped(model, ids, [7, 8, 9, 10, 11], mask)
    assert gap(padded[1:, 4:], alone) < 1e-12


@pytest.mark.mechanism("K1")
@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma-3", "t5"])
def test_gradients_flow_through_a_cache_as_through_one_pass(name):
    model, ids = made(name), words(1, 8)
    grads = []
    for states in (whole(model, ids), stepped(model, ids, [3, 5])):
        model.zero_grad()
        states.square().sum().backward()
        grads.append({key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None})
    assert max(gap(grads[0][key], grads[1][key]) for key in grads[0]) < 1e-9


@pytest.mark.mechanism("K1", "G1", "G2")
@pytest.mark.case("V014")
@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma-3", "deepseek-v3", "t5"])
def test_sixty_four_greedy_tokens_are_the_same_with_and_without_a_cache(name):
    depth = {f"architecture.{stack}.depth": 4 for stack in tiny(name).architecture.stacks}
    model = made(tiny(name, depth), lm_head(name)).float()
    prompts = [words(1, 5)[0].tolist(), words(1, 9, seed=1)[0].tolist()]
    kept, fresh = (generate(model, prompts, max_new_tokens=64, use_cache=use) for use in (True, False))
    for a, b in zip(kept, fresh, strict=True):
        assert a.ids == b.ids and len(a.ids) == 64
        assert a.log_probabilities == pytest.approx(b.log_probabilities, abs=1e-4)


@pytest.mark.mechanism("K7")
@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_source_is_encoded_and_projected_once(name):
    model, ids, source = made(name), words(2, 6), words(2, 9, seed=5)
    runs = {"encoder": 0, "cross keys": 0, "self keys": 0}

    def count(what: str):
        return lambda *_: runs.__setitem__(what, runs[what] + 1)

    model.encoder.register_forward_hook(count("encoder"))
    model.decoder.layers[2].cross.key.register_forward_hook(count("cross keys"))
    model.decoder.layers[2].attention.key.register_forward_hook(count("self keys"))
    cache = Cache()
    with torch.no_grad():
        for at in range(6):
            model(source, decoder_input_ids=ids[:, at : at + 1], cache=cache)
    assert runs == {"encoder": 1, "cross keys": 1, "self keys": 6}
    assert [tuple(tensor.shape) for tensor in cache.cross[2].held] == [(2, 4, 9, 8)] * 2


@pytest.mark.mechanism("K1")
def test_slots_grow_in_doublings_and_are_written_in_place():
    model, cache, ids = made("gpt2"), Cache(), words(1, 40)
    stores = []
    with torch.no_grad():
        for at in range(40):
            model(ids[:, at : at + 1], cache=cache)
            stores.append(cache.layers[2].raw[0])
    assert len({store.data_ptr() for store in stores}) <= 7
    assert [store.shape[2] for store in stores[31:34]] == [32, 64, 64]


@pytest.mark.mechanism("K1", "C15")
def test_a_full_position_table_stops_decoding_with_the_limit():
    model = made(tiny("gpt2", {"architecture.decoder.input.positions.rows": 10}))
    with torch.no_grad():
        stepped(model, words(1, 10), [9])
        with pytest.raises(UsageError, match="longer than the 10"):
            stepped(model, words(1, 11), [10])


#: Past its sixth token a text turns anew with every token, in every layer.
DYNAMIC = {"architecture.decoder.positions.scaling": DynamicNtkScaling(factor=4.0, original_length=6)}


@pytest.mark.mechanism("K1", "P7")
@pytest.mark.parametrize("padding", [0, 3])
def test_where_rotation_follows_the_length_each_new_token_is_scored_as_if_all_were_read_again(padding):
    model, ids = made(tiny("llama", DYNAMIC), "causal_lm"), words(2, 14)
    mask = torch.ones(2, 14, dtype=torch.long)
    mask[1, :padding] = 0
    cache = Cache()
    with torch.no_grad():
        for start, end in [(0, 4), (4, 5), (5, 9), (9, 10), (10, 14)]:
            out = model(ids[:, start:end], attention_mask=mask[:, start:end], cache=cache, output_hidden_states=True)
            right = model(ids[:, :end], attention_mask=mask[:, :end], output_hidden_states=True)
            real = mask[:, start:end].bool()
            assert gap(out.logits[real], right.logits[:, start:end][real]) < 1e-12
            for mine, state in zip(out.hidden_states, right.hidden_states, strict=True):
                assert gap(mine[real], state[:, start:end][real]) < 1e-12
        assert cache.length == 14
        # What the last row says depends on its own length, not on its neighbour's.
        alone = model(ids[1:, padding:], logits_to_keep=1).logits
    assert gap(out.logits[1:, -1:], alone) < 1e-12


@pytest.mark.mechanism("K1", "P7")
def test_a_dynamic_decoder_writes_the_same_with_and_without_a_cache_and_beside_an_encoder():
    model = made(tiny("llama", DYNAMIC), "causal_lm")
    prompts = [words(1, 3)[0].tolist(), words(1, 9, seed=1)[0].tolist()]
    kept, fresh = (generate(model, prompts, max_new_tokens=8, use_cache=use) for use in (True, False))
    assert [row.ids for row in kept] == [row.ids for row in fresh]
    spec = tiny(
        "t5", {"architecture.decoder.positions": Rotary(scaling=DynamicNtkScaling(factor=4.0, original_length=6))}
    )
    beside, ids, cache = made(spec), words(2, 9), Cache()
    with torch.no_grad():
        for end in range(1, 10):
            out = beside(words(2, 7, seed=5), decoder_input_ids=ids[:, end - 1 : end], cache=cache)
            right = beside(words(2, 7, seed=5), decoder_input_ids=ids[:, :end])
            assert gap(out.last_hidden_state, right.last_hidden_state[:, -1:]) < 1e-12


@pytest.mark.mechanism("K1")
def test_an_encoder_decoder_and_every_decoder_is_covered_here():
    remembering = {name for name in DECODERS if tiny(name).architecture.decoder.memory}  # states, not keys
    assert {name for name in NAMES if made(name).is_decoder} == set(WRITERS) | remembering
