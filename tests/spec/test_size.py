"""Costs are exact: published figures follow from the spec alone, and the cache takes the bytes that are told."""

from __future__ import annotations

import pytest
import torch

from tests.checks.held import held
from tests.spec.shrunk import ALL, TEXT
from tests.tiny_specs import made
from variorum.attention.cache import Cache
from variorum.builder import build
from variorum.checks.attention import receptive_field
from variorum.checks.cost import active_parameters, cache_bytes
from variorum.errors import NotFound, OverBudget, UsageError
from variorum.family import find
from variorum.spec.architecture import Sharing
from variorum.spec.fit import fit, parse_bytes
from variorum.spec.shapes import forward
from variorum.spec.size import Size, size

GIB = 2**30


def of(name: str, **given: object) -> Size:
    return size(find(name), **given)  # type: ignore[arg-type]


@pytest.mark.mechanism("K2", "K7", "C5")
def test_a_token_takes_the_published_bytes_of_cache() -> None:
    held(cache_bytes())
    assert of("gemma-2-9b").cache_per_token == 344_064


@pytest.mark.mechanism("K2")
def test_llama_2_7b_keeps_two_gibibytes_of_4096_tokens() -> None:
    assert of("llama-2-7b", context=4096).cache == 2 * GIB
    assert of("llama-2-7b", context=4096, batch=3, dtype="float32").cache == 12 * GIB


@pytest.mark.mechanism("K2")
def test_a_windowed_layer_keeps_no_more_than_its_window() -> None:
    kv = 2 * 2 * 8 * 256  # keys and values, two bytes, eight heads of 256
    assert of("gemma-2-9b", context=8192).cache == kv * (21 * 8192 + 21 * 4096)
    assert of("mistral-7b-v0.1", context=32_768).cache == of("mistral-7b-v0.1", context=4096).cache


@pytest.mark.mechanism("K3")
def test_grouping_shrinks_the_cache_by_query_heads_to_a_key_head() -> None:
    multi = find("llama-2-7b")
    path = "architecture.decoder.block.attention.kv_heads"
    for kv_heads in (8, 1):
        grouped = multi.set({path: kv_heads})
        assert size(multi).cache_per_token == 32 // kv_heads * size(grouped).cache_per_token


@pytest.mark.mechanism("K2", "K7")
def test_cross_attention_keeps_each_source_token_once() -> None:
    t5 = of("t5-base", context=100)
    assert (t5.cache_per_token, t5.cross_per_token) == (36_864, 36_864)
    assert t5.cache == 100 * (36_864 + 36_864)


@pytest.mark.mechanism("K2")
def test_an_encoder_keeps_nothing() -> None:
    assert of("bert").cache == of("modernbert").cache == 0


@pytest.mark.mechanism("C5")
@pytest.mark.parametrize("name", ["gpt2", "llama", "llama-3", "mixtral", "gemma", "deepseek-v3", "t5"])
def test_the_cache_that_is_kept_has_the_bytes_that_are_told(name: str) -> None:
    model = build(ALL[name])
    cache = Cache()
    ids = torch.randint(6, 50, (2, 9))
    both = model.spec.architecture.encoder is not None
    with torch.no_grad():
        model(ids, cache=cache, **({"decoder_input_ids": ids} if both else {}))
    assert cache.bytes == size(ALL[name], context=9, batch=2, dtype="float32").cache


@pytest.mark.mechanism("F5", "C12")
def test_mixtral_uses_a_quarter_of_what_it_holds() -> None:
    held(active_parameters())
    small, large = of("mixtral-8x7b"), of("mixtral-8x22b")
    assert small.active == small.parameters - 6 * 32 * 3 * 4096 * 14_336
    assert large.parameters == 140_620_634_112
    assert (round(large.parameters / 1e9, 2), round(large.active / 1e9, 2)) == (140.62, 39.15)


@pytest.mark.mechanism("F5")
def test_a_dense_model_uses_all_of_its_parameters() -> None:
    assert of("llama-2-7b").active == of("llama-2-7b").parameters


@pytest.mark.mechanism("C2")
@pytest.mark.parametrize(
    ("name", "linear", "per_key"),
    [
        ("bert-base-uncased", 169_869_312, 36_864), ("llama-2-7b", 12_952_010_752, 524_288),
        ("mixtral-8x7b", 25_235_030_016, 524_288), ("deepseek-v3", 71_395_835_904, 4_997_120),
        ("ModernBERT-base", 220_594_176, 67_584), ("albert-base-v2", 170_065_920, 36_864),
    ],
)  # fmt: skip
def test_a_token_costs_its_matrices_and_the_keys_it_sees(name: str, linear: int, per_key: int) -> None:
    for context in (1, 2, 100):
        assert of(name, head=None, context=context).flops == linear + per_key * context


@pytest.mark.mechanism("C2")
def test_a_window_bounds_the_cost_of_attention() -> None:
    near, far = of("mistral-7b-v0.1", context=4096), of("mistral-7b-v0.1", context=32_768)
    assert near.flops == far.flops
    assert of("llama-2-7b", context=8192).flops > of("llama-2-7b", context=4096).flops


@pytest.mark.mechanism("C3", "E4")
def test_sharing_layers_divides_parameters_and_leaves_flops() -> None:
    bert, albert = of("bert", context=512), of("albert", context=512)
    assert [layer.flops for layer in bert.layers] == [layer.flops for layer in albert.layers]
    assert [layer.parameters > 0 for layer in albert.layers] == [True] + [False] * 11
    alone = size(find("bert").set({"architecture.encoder.sharing": Sharing()}), context=512)
    assert alone.flops == bert.flops
    assert sum(layer.parameters for layer in bert.layers) == 12 * sum(layer.parameters for layer in alone.layers)


@pytest.mark.mechanism("C3", "E4")
def test_six_layers_of_64_cost_the_same_shared_or_not() -> None:
    path = "architecture.encoder"
    bert = find("bert").set(
        {"architecture.width": 64, f"{path}.depth": 6, f"{path}.block.feedforward.width": 256}
        | {f"{path}.block.attention.{name}": value for name, value in (("heads", 4), ("kv_heads", 4), ("head_dim", 16))}
    )
    for model, parameters in ((bert, 299_904), (bert.set({f"{path}.sharing": Sharing()}), 49_984)):
        rows = forward(model.architecture, batch=2, length=10)
        assert sum(row.flops for row in rows if ".layers." in row.name) == 12_103_680
        assert sum(layer.parameters for layer in size(model, context=10).layers) == parameters


@pytest.mark.mechanism("C4")
@pytest.mark.parametrize(("name", "stack", "step"), [("mistral", "decoder", 7), ("modernbert", "encoder", 8)])
def test_windows_of_eight_are_told_to_reach_as_far_as_gradients_do(name: str, stack: str, step: int) -> None:
    model = made(name)
    (measured,) = held(receptive_field(model)).values()
    root = f"architecture.{stack}"
    windowed = model.spec.set({f"{root}.pattern": (), f"{root}.block.attention.window": 8})
    told = [size(windowed.set({f"{root}.depth": depth})).reach for depth in range(1, 7)]
    assert told == measured == [step * layers + 1 for layers in range(1, 7)]


@pytest.mark.mechanism("C4")
def test_mistral_reaches_no_further_than_131041_tokens() -> None:
    assert of("mistral-7b-v0.1").reach == 131_041
    assert of("gemma-2-9b").reach is of("llama-2-7b").reach is of("modernbert").reach is None


@pytest.mark.mechanism("E4")
@pytest.mark.parametrize("parts", [("attention",), ("feedforward",), ("attention", "feedforward")])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_sharing_a_part_in_groups_counts_it_once_a_group(parts: tuple[str, ...], groups: int) -> None:
    bert = find("bert")
    shared = size(bert.set({"architecture.encoder.sharing": Sharing(groups=groups, parts=parts)}))  # type: ignore[arg-type]
    layer = {
        "attention": 4 * (768 * 768 + 768) + 2 * 768,
        "feedforward": 2 * 768 * 3072 + 3072 + 768 + 2 * 768,
    }
    spared = sum(layer[part] for part in parts) * (12 - groups)
    assert shared.parameters == size(bert).parameters - spared


@pytest.mark.mechanism("E3")
def test_factorising_the_table_takes_vr_plus_rd() -> None:
    albert = of("albert-base-v2")
    assert albert.embedding == 30_000 * 128
    assert albert.embedding + albert.parts["input projection"] - 768 == 3_938_304  # without the projection's bias
    whole = size(find("albert-base-v2").set({"architecture.encoder.input.rank": None}))
    assert whole.embedding == 23_040_000


def test_a_fifth_of_bert_is_its_table() -> None:
    assert of("bert-base-uncased").embedding_share == pytest.approx(0.2141, abs=5e-5)


@pytest.mark.parametrize("name", TEXT)
def test_parts_terms_and_layers_sum_to_their_totals(name: str) -> None:
    found = size(ALL[name], context=40, batch=3)
    total = {of: sum(term.value for term in found.terms if term.of == of) for of in ("parameters", "cache")}
    assert sum(found.parts.values()) == found.parameters == total["parameters"]
    assert found.cache == total["cache"] == sum(layer.cache for layer in found.layers)
    assert found.flops == sum(term.value for term in found.terms if term.of == "flops" and term.per == "token")
    assert found.activations == sum(term.value for term in found.terms if term.of == "activations")
    assert "residual stream" not in found.parts


def test_a_published_count_has_the_head_that_writes_and_no_other() -> None:
    assert of("llama-2-7b").heads == ("causal_lm",)
    assert of("t5").heads == ("seq2seq_lm",)
    assert of("bert").heads == of("bert", head=None).heads == ()
    assert find("gpt2").size(context=7) == of("gpt2", context=7)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"head": "masked_ml"}, NotFound), ({"context": 0}, UsageError), ({"context": 513}, UsageError),
        ({"batch": 0}, UsageError), ({"dtype": "float17"}, UsageError),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(given: dict[str, object], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        of("bert", **given)


@pytest.mark.parametrize(("name", "tokens"), [("llama-2-7b", 23_446), ("llama-3-8b", 74_075)])
def test_24_gibibytes_hold_the_weights_and_this_many_tokens(name: str, tokens: int) -> None:
    model, memory = find(name), parse_bytes("24GiB")
    found = fit(model, memory)
    assert (found.context, found.limited_by) == (tokens, "memory")
    assert found.weights + found.cache <= memory < found.weights + size(model, context=tokens + 1).cache


def test_the_largest_batch_is_found_for_a_given_context() -> None:
    found = fit(find("llama-2-7b"), parse_bytes("24 GiB"), context=4096)
    assert (found.solved, found.batch) == ("batch", 5)
    assert found.cache == 5 * 2 * GIB


def test_where_memory_is_no_limit_it_says_what_is() -> None:
    assert (fit(find("gpt2"), 24 * GIB).context, fit(find("gpt2"), 24 * GIB).limited_by) == (1024, "positions")
    ring = fit(find("mistral-7b-v0.1"), 24 * GIB)
    assert (ring.context, ring.limited_by) == (None, "nothing")


def test_what_does_not_fit_is_an_error_of_its_own() -> None:
    with pytest.raises(OverBudget, match="does not fit"):
        fit(find("llama-2-7b"), parse_bytes("8GiB"))
    with pytest.raises(OverBudget):
        fit(find("llama-2-7b"), parse_bytes("24GiB"), context=4096, batch=6)


def test_amounts_of_memory() -> None:
    assert [parse_bytes(text) for text in ("1KiB", "1.5 GiB", "800MB", "24gib")] == [
        1024, 3 * GIB // 2, 800_000_000, 24 * GIB,
    ]  # fmt: skip
    for wrong in ("24", "GiB", "-1GiB", "24 parsecs"):
        with pytest.raises(UsageError):
            parse_bytes(wrong)
