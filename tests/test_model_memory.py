"""A memory of hidden states is what the earlier text left: segment by segment is one text, as far as a window sees."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import gap, made, tiny, words
from variorum.attention.cache import Cache
from variorum.errors import UsageError
from variorum.inference.generate import generate
from variorum.model import Model
from variorum.spec.size import size

D = "architecture.decoder"
MEMORY = 5


def transformer_xl(head: str | None = None, *, window: int | None = MEMORY, first: str = "zeros", memory: int = MEMORY,
                   **values: object) -> Model:  # fmt: skip
    given = {"memory": memory, "first_memory": first, "block.attention.window": window, "depth": 3, **values}
    return made(tiny("transformer-xl", {f"{D}.{path}": value for path, value in given.items()}), head)


def in_segments(model: Model, ids: Tensor, cuts: list[int]) -> Tensor:
    memory, pieces = None, []
    for start, end in zip([0, *cuts], [*cuts, ids.shape[1]], strict=True):
        out = model(ids[:, start:end], memory=memory)
        memory = out.memory
        pieces.append(out.last_hidden_state)
    return torch.cat(pieces, 1)


@pytest.mark.mechanism("P8", "K1")
@pytest.mark.parametrize("first", ["zeros", "nothing"])
@pytest.mark.parametrize("cuts", [[7], [3, 4, 5, 11], list(range(1, 17))], ids=len)
@pytest.mark.parametrize("backend", ["eager", "auto"])
@torch.no_grad()
def test_segments_with_a_memory_are_one_long_text_where_a_window_forgets_as_much(first, cuts, backend):
    model, ids = transformer_xl(first=first), words(2, 17)
    model.backend = backend
    assert gap(in_segments(model, ids, cuts), model(ids).last_hidden_state) < 1e-12


@pytest.mark.mechanism("P8", "K1")
@torch.no_grad()
def test_without_a_window_segments_are_one_text_until_the_memory_is_full():
    model, ids = transformer_xl(window=None, first="nothing"), words(2, 9)
    whole, pieces = model(ids).last_hidden_state, in_segments(model, ids, list(range(1, 9)))
    # One layer above the input, token 6 is the first that lacks something: the token 0.
    assert gap(pieces[:, :6], whole[:, :6]) < 1e-12
    assert gap(pieces[:, 6:], whole[:, 6:]) > 1e-3
    longer = transformer_xl(window=None, first="nothing", memory=8)
    assert gap(in_segments(longer, ids, list(range(1, 9))), longer(ids).last_hidden_state) < 1e-12


@pytest.mark.mechanism("P8")
@torch.no_grad()
def test_a_memory_holds_the_last_states_below_each_layer_and_no_gradient():
    model, ids = transformer_xl(), words(2, 4)
    with torch.enable_grad():
        out = model(ids, output_hidden_states=True)
    assert len(out.memory) == 3
    for kept, states in zip(out.memory, out.hidden_states, strict=False):
        assert kept.shape == (2, MEMORY, 32) and not kept.requires_grad
        assert gap(kept[:, 1:], states) < 1e-12 and float(kept[:, 0].abs().max()) == 0
    nothing = transformer_xl(first="nothing")(ids).memory
    assert nothing[0].shape == (2, 4, 32)


@pytest.mark.mechanism("P8")
@torch.no_grad()
def test_the_first_segment_attends_to_zeros_as_in_the_released_code():
    model, ids = transformer_xl(), words(2, 6)
    zeros = [torch.zeros(2, MEMORY, 32, dtype=torch.float64)] * 3
    plain = made(model.spec.set({f"{D}.first_memory": "nothing"}))
    assert gap(model(ids).last_hidden_state, plain(ids, memory=zeros).last_hidden_state) < 1e-12
    assert gap(model(ids).last_hidden_state, plain(ids).last_hidden_state) > 1e-3


@pytest.mark.mechanism("P8", "A6")
@torch.no_grad()
def test_a_mask_over_memory_and_tokens_says_what_of_both_is_real():
    model = transformer_xl(first="nothing", memory=30, window=30)
    ids, mask = words(2, 8), torch.ones(2, 8, dtype=torch.long)
    mask[1, :3] = 0
    left = model(ids, attention_mask=mask)
    later = words(2, 4, seed=1)
    both = model(later, memory=left.memory, attention_mask=torch.cat((mask, torch.ones_like(later)), 1))
    alone = model(ids[1:, 3:])
    right = model(later[1:], memory=alone.memory)
    assert gap(left.last_hidden_state[1:, 3:], alone.last_hidden_state) < 1e-12
    assert gap(both.last_hidden_state[1:], right.last_hidden_state) < 1e-12


@pytest.mark.mechanism("P8")
@torch.no_grad()
def test_what_lies_beyond_the_clamp_has_no_order():
    memory = [torch.randn(1, 12, 32, generator=torch.Generator().manual_seed(i)).double() for i in range(3)]
    turned = [torch.cat((states[:, :9].flip(1), states[:, 9:]), 1) for states in memory]
    apart = {}
    for clamp in (2, None):
        model = transformer_xl(window=None, memory=12, **{"positions.clamp": clamp})
        one, other = (model(words(1, 3), memory=states).last_hidden_state for states in (memory, turned))
        apart[clamp] = gap(one, other)
    assert apart[2] < 1e-12 and apart[None] > 1e-6


@pytest.mark.mechanism("K1", "G1", "G2", "P8")
@pytest.mark.parametrize("first", ["zeros", "nothing"])
def test_writing_from_a_memory_is_recomputing_everything(first):
    model = transformer_xl("causal_lm", first=first)
    prompts = [words(1, n, seed=n)[0].tolist() for n in (4, 11, 4, 1)]
    kept, fresh = (generate(model, prompts[:1], max_new_tokens=20, use_cache=use) for use in (True, False))
    assert kept[0].ids == fresh[0].ids
    assert kept[0].log_probabilities == pytest.approx(fresh[0].log_probabilities, abs=1e-5)
    together = generate(model, prompts, max_new_tokens=9)
    for prompt, row in zip(prompts, together, strict=True):
        (alone,) = generate(model, [prompt], max_new_tokens=9)
        assert row.ids == alone.ids and row.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-6)


def test_each_new_token_is_all_that_a_step_reads():
    model, seen = transformer_xl("causal_lm"), []
    model.decoder.input.register_forward_hook(lambda module, given, out: seen.append(out.shape[1]))
    generate(model, [[7, 8, 9]], max_new_tokens=4)
    assert seen == [3, 1, 1, 1]


def test_a_cache_of_keys_is_refused_with_the_remedy():
    with pytest.raises(UsageError, match="remembers states, not keys; give memory in place of cache"):
        transformer_xl()(words(1, 3), cache=Cache())
    with pytest.raises(UsageError, match="gpt2 takes no memory"):
        made("gpt2")(words(1, 3), memory=[])


@pytest.mark.mechanism("C1", "K2")
def test_the_released_model_has_285_million_parameters_and_keeps_36_kib_a_token():
    from variorum.family import find

    cost = size(find("transfo-xl-wt103"), context=384)
    assert cost.parameters == 285_205_322
    assert cost.embedding == 38_316_400
    assert cost.cache_per_token == 36_864 and cost.cache == 384 * 36_864
    assert size(find("transfo-xl-wt103"), context=4000).cache == 1600 * 36_864
