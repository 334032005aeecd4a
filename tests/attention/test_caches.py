"""However keys and values lie, and in whatever pieces a prompt comes, what is scored is what reading it all gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import CACHED, SEQ2SEQ, WINDOW, gap, lm_head, made, tiny, words
from variorum.attention.cache import Cache, CachePlan
from variorum.errors import UsageError
from variorum.inference.writer import Writer
from variorum.model import Model
from variorum.spec.cache import KINDS, require
from variorum.spec.positions import DynamicNtkScaling
from variorum.spec.size import size

WRITERS = (*CACHED, *SEQ2SEQ)
WINDOWED = ("mistral", "gemma-2", "gemma-3")
#: Past its sixth token a text turns anew with every token, in every layer.
DYNAMIC = {"architecture.decoder.positions.scaling": DynamicNtkScaling(factor=4.0, original_length=6)}
#: Shorter than a window, longer, and three windows long.
LENGTHS = (3, 11, 3 * WINDOW + 1)


def texts(*lengths: int) -> list[list[int]]:
    return [words(1, length, seed=length)[0].tolist() for length in lengths]


def writer(model: Model, prompts: list[list[int]], plan: CachePlan | None) -> Writer:
    source = None if model.spec.architecture.encoder is None else texts(9, 5, 7)[: len(prompts)]
    return Writer(model, prompts, plan, source=source)


def legal(model: Model, plan: CachePlan) -> bool:
    try:
        require(model.spec.architecture.main, plan, model.spec.name)
    except UsageError:
        return False
    return True


def follow(one: Writer, seed: int = 0) -> list[Tensor]:
    """Scores of a text that is written one token at a time, three at once, some forgotten, rows left and doubled."""
    found = [one.logits]
    for at in range(WINDOW + 2):
        found.append(one.step(words(3, 1, seed=seed + at)))
    found.append(one.step(words(3, 3, seed=seed + 20)))
    one.drop([2, 0, 1])
    found += [one.logits, one.step(words(3, 1, seed=seed + 21))]
    one.select([2, 2, 0])
    found += [one.logits, one.step(words(3, 1, seed=seed + 22)), one.step(words(3, 2, seed=seed + 23))]
    return found


@pytest.mark.mechanism("K1", "K4", "K6", "G2")
@pytest.mark.case("V012", "V014")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_cache_in_every_chunk_scores_what_no_cache_scores(name, kind):
    model = made(name, lm_head(name))
    right = None
    for chunk in (None, 4):
        plan = CachePlan(kind=kind, chunk=chunk, page=4, undo=2)
        if not legal(model, plan):
            assert kind == "ring"
            with pytest.raises(UsageError, match="sees every token: a ring would forget"):
                writer(model, texts(*LENGTHS), plan)
            return
        right = right or follow(writer(model, texts(*LENGTHS), None))
        for mine, one in zip(follow(writer(model, texts(*LENGTHS), plan)), right, strict=True):
            assert gap(mine, one) < 1e-12 * max(1.0, float(one.abs().max()))


@pytest.mark.mechanism("K1", "K4")
@pytest.mark.parametrize("backend", ["eager", "auto"])
@pytest.mark.parametrize("name", WINDOWED)
def test_a_ring_sees_what_the_window_of_the_whole_text_shows(name, backend):
    model, ids = made(name), words(2, 5 * WINDOW)
    model.backend = backend
    with torch.no_grad():
        right = model(ids).last_hidden_state
        for cuts in ([2 * WINDOW], [WINDOW - 1, WINDOW + 1], [1, 3 * WINDOW], list(range(1, 5 * WINDOW))):
            cache, pieces = Cache(), []
            for start, end in zip([0, *cuts], [*cuts, 5 * WINDOW], strict=True):
                pieces.append(model(ids[:, start:end], cache=cache).last_hidden_state)
            assert gap(torch.cat(pieces, 1), right) < 1e-12
    assert min(slots.raw[0].shape[2] for slots in cache.layers) == WINDOW


@pytest.mark.mechanism("K1")
@pytest.mark.parametrize("kind", ["auto", "paged"])
@pytest.mark.parametrize("name", ["gpt2", "mistral", "gemma-3", "deepseek-v3", "bloom", "t5", "bart"])
def test_a_row_scores_the_same_alone_and_in_company(name, kind):
    model, plan = made(name, lm_head(name)), CachePlan(kind=kind, page=4)
    together = writer(model, texts(*LENGTHS), plan)
    sources = None if model.spec.architecture.encoder is None else texts(9, 5, 7)
    alone = [
        Writer(model, [prompt], plan, source=sources and [sources[row]]) for row, prompt in enumerate(texts(*LENGTHS))
    ]
    for at in range(4):
        assert gap(together.logits, torch.cat([one.logits for one in alone])) < 1e-12
        ids = words(3, 1, seed=at)
        together.step(ids)
        for row, one in enumerate(alone):
            one.step(ids[row : row + 1])


@pytest.mark.mechanism("K1", "P7")
def test_where_rotation_follows_the_length_every_token_is_scored_at_its_own_length():
    model = made(tiny("llama", DYNAMIC), "causal_lm")
    right = follow(writer(model, texts(*LENGTHS), None))
    for kind, chunk in (("auto", None), ("whole", 4)):
        plan = CachePlan(kind=kind, chunk=chunk)
        for mine, one in zip(follow(writer(model, texts(*LENGTHS), plan)), right, strict=True):
            assert gap(mine, one) < 1e-12


def test_a_text_that_is_cut_back_to_a_settled_length_turns_back_too():
    model = made(tiny("llama", DYNAMIC), "causal_lm")
    kept, fresh = (writer(model, texts(4), plan) for plan in (CachePlan(), None))
    for one in (kept, fresh):
        one.step(words(1, 4))
        one.drop(4)
    assert gap(kept.step(words(1, 1)), fresh.step(words(1, 1))) < 1e-12


@pytest.mark.mechanism("K5")
@pytest.mark.parametrize("name", WRITERS)
def test_int8_keys_and_values_depend_on_the_text_alone_and_stay_near_the_exact_ones(name):
    model = made(name, lm_head(name))
    exact = torch.cat([scores.flatten() for scores in follow(writer(model, texts(*LENGTHS), CachePlan(undo=2)))])
    found = []
    for kind, chunk in (("auto", None), ("paged", 4)):
        plan = CachePlan(kind=kind, numbers="int8", chunk=chunk, page=4, undo=2)
        found.append(torch.cat([scores.flatten() for scores in follow(writer(model, texts(*LENGTHS), plan))]))
    # Scales are float32, so a last bit decides now and then which whole number is nearest.
    assert gap(found[1], found[0]) < 1e-3 * float(exact.std())
    error = float((found[0] - exact).square().mean().sqrt() / exact.std())
    routed = any(getattr(model.spec.architecture.main.layer(i).feedforward, "router", None) for i in range(6))
    assert 1e-5 < error < (0.5 if routed else 0.15)  # a token that goes to another expert is another token


@pytest.mark.mechanism("K5")
def test_a_whole_number_is_off_by_half_a_step_at_most():
    from variorum.attention.cache.numbers import Int8

    entries = torch.randn(2, 3, 50, 16, generator=torch.Generator().manual_seed(0))
    entries[0, 0, 0] = 0
    whole, scale = Int8().encode((entries,))
    (back,) = Int8().decode((whole, scale), torch.float32)
    assert whole.dtype == torch.int8 and scale.shape == (2, 3, 50, 1)
    assert bool(((back - entries).abs() <= 0.5001 * scale).all()) and not bool(back[0, 0, 0].any())


@pytest.mark.mechanism("K2", "K4", "K5", "K6", "C5")
@pytest.mark.parametrize("numbers", ["model", "int8"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*WRITERS, "dynamic"])
def test_every_kind_takes_the_bytes_that_are_told(name, kind, numbers):
    spec = tiny("llama", DYNAMIC) if name == "dynamic" else tiny(name)
    model = made(spec)
    for context, page in ((4, 3), (3 * WINDOW + 1, 4)):
        plan = CachePlan(kind=kind, numbers=numbers, room=context, page=page, undo=3)
        if not legal(model, plan):
            assert kind == "ring" or (kind == "paged" and name == "dynamic")
            with pytest.raises(UsageError):
                size(spec, context=context, plan=plan)
            continue
        cache, ids = Cache(plan, rows=2), words(2, context)
        beside = {"decoder_input_ids": ids} if spec.architecture.encoder is not None else {}
        with torch.no_grad():
            model(ids, cache=cache, **beside)
        assert cache.bytes == size(spec, context=context, batch=2, dtype="float64", plan=plan).cache


@pytest.mark.mechanism("K6")
def test_rows_share_the_pages_of_a_common_beginning_until_they_write():
    model, plan = made("gpt2", "causal_lm"), CachePlan(kind="paged", page=4)
    start = texts(18)[0]
    one = writer(model, [start, [*start, 7, 8], start], plan)
    places = one._state.cache._places[0]
    first, second, third = places.tables
    assert first[:4] == second[:4] == third[:4]  # four whole pages; the fifth was written to by all
    assert first[4] != second[4]
    assert sorted(places.shares) == [1, 1, 1, 3, 3, 3, 3]
    one.select([1, 1, 1])
    assert len({tuple(table) for table in places.tables}) == 1 and max(places.shares) == 3
    one.step(words(3, 1))
    assert places.tables[0][:4] == places.tables[2][:4]
    lasts = {table[-1] for table in places.tables}
    assert len(lasts) == 3, "who writes has a page of its own"
    one.select([2])
    assert sum(places.shares) == 6 and one.step(words(1, 1)).shape == (1, 1, 50)


@pytest.mark.mechanism("K6", "K4")
def test_pages_that_no_window_reaches_any_more_are_used_again():
    model, plan = made("mistral", "causal_lm"), CachePlan(kind="paged", page=2)
    one = writer(model, texts(4), plan)
    for at in range(40):
        one.step(words(1, 1, seed=at))
    assert len(one._state.cache._places[0].shares) <= WINDOW // 2 + 2


@pytest.mark.mechanism("K7")
@pytest.mark.parametrize("name", ["t5", "bart"])
def test_rows_that_change_places_take_their_sources_along(name):
    model = made(name, lm_head(name))
    kept, fresh = (writer(model, texts(2, 2, 2), plan) for plan in (CachePlan(), None))
    for one in (kept, fresh):
        one.step(words(3, 1))
        one.select([2, 0, 0, 1])
    assert gap(kept.step(words(4, 1, seed=1)), fresh.step(words(4, 1, seed=1))) < 1e-12


def test_what_a_ring_has_overwritten_cannot_be_brought_back():
    one = writer(made("mistral", "causal_lm"), texts(11), CachePlan(undo=2))
    one.step(words(1, 3))
    with pytest.raises(UsageError, match=r"3 tokens are to be forgotten, and a ring has overwritten .*undo=3"):
        one.drop(3)
    one.drop(2)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "rong"}, "no cache has kind 'rong'"),
        ({"page": 0}, "page of a cache is at least 1"),
        ({"numbers": "int4"}, "no cache has numbers 'int4'"),
    ],
)  # fmt: skip
def test_a_plan_says_what_it_cannot_be(given, says):
    with pytest.raises(UsageError, match=says):
        CachePlan(**given)


def test_pages_are_refused_where_no_key_stays_as_it_is():
    with pytest.raises(UsageError, match="keys are made anew and no page can be shared"):
        writer(made(tiny("llama", DYNAMIC), "causal_lm"), texts(4), CachePlan(kind="paged"))


def test_texts_that_have_begun_are_not_read_end_to_end():
    model, cache, ids = made("gpt2"), Cache(rows=2), words(1, 8)
    with torch.no_grad():
        model(ids, lengths=[3, 5], cache=cache)
        assert cache.lengths == [3, 5]
        with pytest.raises(UsageError, match="that have begun are not read end to end"):
            model(ids, lengths=[3, 5], cache=cache)
        with pytest.raises(UsageError, match="1 texts for a cache of 2"):
            model(ids[:, :1], cache=cache)
