"""Sinusoids, learned tables, T5's buckets, Transformer-XL's and DeBERTa's relative terms, by their numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.checks.held import held
from tests.tiny_specs import gap, made, tiny, words
from variorum.builder import build
from variorum.checks.positions import position_limit, sinusoid_distance
from variorum.checks.subjects import read
from variorum.errors import UsageError
from variorum.parts.positions import (
    Disentangled,
    RecurrentRelative,
    RelativeTable,
    log_buckets,
    relative_buckets,
    sinusoids,
)
from variorum.parts.where import Where
from variorum.spec import positions as spec
from variorum.spec.attention import Attention
from variorum.spec.positions import Learned, Sinusoidal

DISTANCES = [-200, -128, -64, -32, -16, -8, -7, -1, 0, 1, 7, 8, 16, 32, 64, 128, 200]


def table(rows: int, width: int = 512) -> Tensor:
    return sinusoids(torch.arange(rows), width, 10_000.0, halves=False, dtype=torch.float64)


def line(queries: int, keys: int | None = None) -> Where:
    q, k = (torch.arange(n)[None] for n in (queries, keys or queries))
    return Where(q, k, q, k, padded=False)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.mechanism("P2")
def test_sinusoids_are_the_sines_and_cosines_of_the_paper():
    pe = table(60)
    for position, pair in ((0, 0), (7, 3), (59, 255)):
        angle = position / 10_000 ** (2 * pair / 512)
        assert pe[position, 2 * pair : 2 * pair + 2].tolist() == pytest.approx([math.sin(angle), math.cos(angle)])
    halves = sinusoids(torch.arange(60), 512, 10_000.0, halves=True, dtype=torch.float64)
    assert torch.equal(halves, torch.cat((pe[:, 0::2], pe[:, 1::2]), -1))


@pytest.mark.mechanism("P2", "C7")
def test_products_of_sinusoids_depend_on_the_distance_alone_and_do_not_fall_all_the_way():
    held(sinusoid_distance())


@pytest.mark.mechanism("P2")
def test_a_model_adds_sinusoids_to_what_it_looked_up():
    bare = {"architecture.encoder.input.positions": None, "architecture.encoder.input.norm": None}
    there = bare | {"architecture.encoder.input.positions": Sinusoidal()}
    ids = words(2, 9)
    with_none, with_sines = (
        made(tiny("bert", values))(ids, output_hidden_states=True).hidden_states[0] for values in (bare, there)
    )
    assert gap(with_sines - with_none, table(9, 32).expand(2, -1, -1)) < 1e-12


@pytest.mark.mechanism("P3", "P10", "C15")
@pytest.mark.parametrize("name", ["bert", "gpt2", "roberta", "bart"])
def test_a_learned_table_takes_its_rows_and_refuses_one_token_more(name):
    model = made(name)
    held(position_limit(model))
    with pytest.raises(UsageError, match="split it into windows"):
        read(model, words(1, 81))


@pytest.mark.mechanism("P3")
@pytest.mark.case("V002")
def test_roberta_counts_positions_from_its_padding_id():
    model = made(tiny("roberta"))
    seen: list[Tensor] = []
    model.encoder.input.positions.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    ids = torch.tensor([[0, 5, 6, 2, 1, 1]])
    model(ids, attention_mask=(ids != 1).long())
    model(ids)
    assert seen[0].tolist() == seen[1].tolist() == [[2, 3, 4, 5, 1, 1]]


@pytest.mark.mechanism("P3", "C15")
@pytest.mark.case("V002")
@pytest.mark.parametrize(("pad_id", "usable"), [(1, 512), (3, 510)])
def test_a_table_of_514_rows_loses_one_and_the_padding_id_of_them(pad_id, usable):
    root = "architecture.encoder"
    values = {
        f"{root}.depth": 1,
        f"{root}.input.pad_id": pad_id,
        f"{root}.input.positions": Learned(rows=514, offset=pad_id + 1, count="ids"),
    }
    model = build(tiny("roberta", values))
    assert model(words(1, usable)).last_hidden_state.isfinite().all()
    with pytest.raises(UsageError, match=f"{usable + 1} tokens is longer than the {usable}"):
        model(words(1, usable + 1))


@pytest.mark.mechanism("P4")
def test_t5_puts_distances_into_the_released_buckets():
    distance = torch.tensor(DISTANCES)
    both = relative_buckets(distance, 32, 128, bidirectional=True)
    assert both.tolist() == [15, 15, 14, 12, 10, 8, 7, 1, 0, 17, 23, 24, 26, 28, 30, 31, 31]
    causal = relative_buckets(distance, 32, 128, bidirectional=False)
    assert causal.tolist() == [31, 31, 26, 21, 16, 8, 7, 1, *[0] * 9]


@pytest.mark.mechanism("P4")
@pytest.mark.case("V018")
def test_keys_after_the_query_have_the_upper_half_of_the_buckets():
    def buckets(*distance: int) -> list[int]:
        return relative_buckets(torch.tensor(distance), 32, 128, bidirectional=True).tolist()

    assert buckets(*range(10)) == [0, 17, 18, 19, 20, 21, 22, 23, 24, 24]
    assert buckets(*range(0, -10, -1)) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]
    assert buckets(20, 127, 500) == [26, 31, 31]
    assert buckets(-20, -127, -500) == [10, 15, 15]


@pytest.mark.mechanism("P4")
def test_one_table_a_stack_serves_every_layer_and_cross_attention_has_none():
    model = build(tiny("t5"))
    tables = [name for name, _ in model.named_parameters() if "positions" in name]
    assert tables == ["encoder.positions.table.weight", "decoder.positions.table.weight"]
    for stack in (model.encoder, model.decoder):
        assert {id(layer.attention.positions._shared[0]) for layer in stack.layers} == {id(stack.positions)}


@pytest.mark.mechanism("P8")
def test_transformer_xl_adds_a_learned_bias_to_content_and_to_distance():
    """(q + u)·k + (q + v)·W R(i - j), pair by pair."""
    heads, d, width, queries, keys = 3, 4, 12, 5, 7
    layer = RecurrentRelative(spec.RecurrentRelative(), Attention(heads=heads, kv_heads=heads, head_dim=d), width)
    layer = layer.double()
    for index, parameter in enumerate(layer.parameters()):
        parameter.data = drawn(*parameter.shape, seed=index)
    q, k = drawn(2, heads, queries, d, seed=8), drawn(2, heads, keys, d, seed=9)
    where = line(queries, keys)
    turned, _ = layer.rotate(q, k, where)
    total = turned @ k.transpose(-1, -2) + layer.scores(q, k, where)
    for b, h, i, j in ((0, 0, 0, 0), (0, 2, 4, 6), (1, 1, 3, 1)):
        row = sinusoids(torch.tensor(i - j), width, 10_000.0, halves=True, dtype=torch.float64)
        relative = (layer.relative.weight @ row).view(heads, d)[h]
        content = (q[b, h, i] + layer.content_bias[h]) @ k[b, h, j]
        right = content + (q[b, h, i] + layer.position_bias[h]) @ relative
        assert float(total[b, h, i, j]) == pytest.approx(float(right), abs=1e-12)


@pytest.mark.mechanism("P8")
def test_memory_of_a_first_segment_is_as_if_it_stood_before_the_second():
    """Exact for one layer: deeper memory was computed without the second segment."""
    model = made(tiny("xlnet", {"architecture.encoder.depth": 1, "architecture.encoder.memory": 7}))
    ids = words(2, 12)
    memory = model(ids[:, :7]).memory
    second = model(ids[:, 7:], memory=memory).last_hidden_state
    assert gap(second, model(ids).last_hidden_state[:, 7:]) < 1e-12
    assert not memory[0].requires_grad


@pytest.mark.mechanism("P8")
def test_memory_keeps_the_last_states_of_each_layer_across_segments():
    model = made(tiny("xlnet", {"architecture.encoder.memory": 7}))
    ids = words(2, 12)
    first = model(ids[:, :4], output_hidden_states=True)
    second = model(ids[:, 4:8], memory=first.memory, output_hidden_states=True)
    assert [m.shape for m in second.memory] == [(2, 7, 32)] * 6
    for layer, kept in enumerate(second.memory):
        assert gap(kept, torch.cat((first.hidden_states[layer], second.hidden_states[layer]), 1)[:, -7:]) == 0
    without = model(ids[:, 4:8]).last_hidden_state
    assert gap(second.last_hidden_state, without) > 1e-3


@pytest.mark.mechanism("P9")
def test_deberta_v2_buckets_are_exact_to_half_and_logarithmic_beyond():
    distance = torch.tensor([0, 1, 64, 127, 128, 129, 200, 300, 511, -300])
    assert log_buckets(distance, 256, 512).tolist() == [0, 1, 64, 127, 128, 129, 169, 207, 255, -207]


@pytest.mark.mechanism("P9")
def test_deberta_adds_content_to_position_and_position_to_content_at_the_released_index():
    """Both terms read the table at clip(i - j + k, 0, 2k - 1), as the released code does."""
    heads, d, width, span, length = 2, 4, 8, 3, 9
    shared = RelativeTable(spec.Disentangled(span=span), width).double()
    attention = Attention(heads=heads, kv_heads=heads, head_dim=d)
    layer = Disentangled(spec.Disentangled(span=span), attention, width, shared).double()
    for index, parameter in enumerate([*layer.parameters(), *shared.parameters()]):
        parameter.data = drawn(*parameter.shape, seed=index)
    q, k = drawn(2, heads, length, d, seed=8), drawn(2, heads, length, d, seed=9)
    scores = layer.scores(q, k, line(length))
    keys = layer.key(shared()).view(2 * span, heads, d)
    queries = layer.query(shared()).view(2 * span, heads, d)
    for b, h, i, j in ((0, 0, 0, 0), (1, 1, 8, 0), (0, 1, 0, 8), (1, 0, 4, 5)):
        at = min(max(i - j + span, 0), 2 * span - 1)
        right = q[b, h, i] @ keys[at, h] + k[b, h, j] @ queries[at, h]
        assert float(scores[b, h, i, j]) == pytest.approx(float(right), abs=1e-12)


@pytest.mark.mechanism("P9")
@pytest.mark.parametrize("name", ["deberta", "deberta-v2", "deberta-v3"])
def test_debertas_three_terms_share_one_scale(name):
    spec_of_layer = tiny(name).architecture.encoder.layer(0).attention
    assert spec_of_layer.score_scale == pytest.approx((3 * 64) ** -0.5)  # of the published heads of 64
