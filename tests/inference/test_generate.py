"""Writing: greedily, each row as if alone, from its own start to its own end, and only by models that can."""

from __future__ import annotations

import multiprocessing

import pytest
import torch

from tests.tiny_specs import ENCODERS, NAMES, SEQ2SEQ, gap, lm_head, made, tiny, words
from variorum.attention.cache import Cache, CachePlan
from variorum.builder import build
from variorum.errors import UsageError
from variorum.face import build as build_face
from variorum.inference.generate import Keeping, generate, require_decoder
from variorum.inference.peak import peak_bytes
from variorum.inference.prefix import PrefixCache
from variorum.model import Model

END, OTHER_END = 49, 48


def by_position(words_at: dict[int, int]) -> Model:
    """A GPT-2 that writes ``words_at[p]`` after the token at position p, and 7 elsewhere, whatever the text says."""
    model = build(tiny("gpt2", {"architecture.heads.causal_lm.tie": None}), head="causal_lm").double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.zero_()
        for position in range(20):
            model.decoder.input.positions.weight[position, position] = 1.0
            model.heads["causal_lm"].project.weight[words_at.get(position, 7), position] += 1.0
    return model


@pytest.mark.mechanism("G1")
@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral", "t5"])
def test_greedy_writes_the_likeliest_word_each_time(name):
    model = made(name, lm_head(name))
    prompt = words(1, 5)
    (written,) = generate(model, prompt.tolist(), max_new_tokens=6)
    ids, target = prompt, torch.zeros(1, 1, dtype=torch.long)
    for step in range(6):
        logits = model(ids, decoder_input_ids=target).logits if name == "t5" else model(ids).logits
        best = logits[0, -1].log_softmax(-1).max(-1)
        assert written.ids[step] == int(best.indices)
        assert written.log_probabilities[step] == pytest.approx(float(best.values.detach()), abs=1e-5)
        new = best.indices[None, None]
        ids, target = (ids, torch.cat((target, new), 1)) if name == "t5" else (torch.cat((ids, new), 1), target)
    assert not written.stopped


@pytest.mark.mechanism("G1")
@pytest.mark.case("V080")
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_among_equally_likely_words_the_lowest_id_is_written_every_time(dtype):
    model = build(tiny("llama"), head="causal_lm").to(dtype)
    with torch.no_grad():
        model.heads["causal_lm"].project.weight.zero_()
    assert generate(model, [[9, 8]], max_new_tokens=3)[0].ids == [0, 0, 0]
    with torch.no_grad():
        row = model(torch.tensor([[9, 8]])).last_hidden_state[0, -1]
        model.heads["causal_lm"].project.weight[[41, 23, 37]] = row
    for _ in range(3):
        assert generate(model, [[9, 8]], max_new_tokens=1)[0].ids == [23]


@pytest.mark.mechanism("G1", "G2")
@pytest.mark.case("V081")
@pytest.mark.parametrize("use_cache", [True, False])
def test_each_row_stops_at_its_own_end_and_the_loop_at_the_last(use_cache):
    model = by_position({9: END, 5: OTHER_END})
    prompts = [[11] * 10, [12] * 7, [13] * 2]
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    model.register_forward_hook(count)
    rows = generate(model, prompts, max_new_tokens=10, end_ids=[END], use_cache=use_cache)
    assert [row.ids for row in rows] == [[END], [7] * 3 + [END], [7] * 4 + [OTHER_END] + [7] * 3 + [END]]
    assert [len(row.log_probabilities) for row in rows] == [1, 4, 9]
    assert all(row.stopped for row in rows)
    assert steps == 9
    either = generate(model, prompts, max_new_tokens=10, end_ids=[END, OTHER_END], use_cache=use_cache)
    assert [len(row.ids) for row in either] == [1, 4, 5]
    short = generate(model, prompts, max_new_tokens=3, end_ids=[END], use_cache=use_cache)
    assert [row.stopped for row in short] == [True, False, False]


@pytest.mark.mechanism("G1", "G2")
@pytest.mark.case("V081")
def test_ended_rows_leave_the_batch():
    model = by_position({9: END, 5: OTHER_END})
    read: list[int] = []
    model.decoder.input.table.register_forward_hook(lambda module, args, out: read.append(args[0].numel()))
    rows = generate(model, [[11] * 10, [12] * 7, [13] * 2], max_new_tokens=10, end_ids=[END])
    assert [len(row.ids) for row in rows] == [1, 4, 9]
    assert read[1:] == [2, 2, 2, 1, 1, 1, 1, 1]


@pytest.mark.mechanism("G1")
@pytest.mark.case("V081")
@pytest.mark.parametrize("end", [END, OTHER_END])
def test_drawn_rows_end_apart_too_and_each_as_if_run_alone(end):
    model, prompts = made("llama", "causal_lm"), [words(1, n, seed=n)[0].tolist() for n in (3, 8, 5)]
    free = generate(model, prompts, max_new_tokens=12, temperature=2.0, seed=[1, 2, 3])
    ends = [row.ids[place] for row, place in zip(free, (0, 3, 8), strict=True)]
    rows = generate(model, prompts, max_new_tokens=12, temperature=2.0, seed=[1, 2, 3], end_ids=[*ends, end])
    for row, before, prompt, seed in zip(rows, free, prompts, (1, 2, 3), strict=True):
        last = next(place for place, token in enumerate(before.ids) if token in (*ends, end))
        assert row.ids == before.ids[: last + 1] and row.stopped
        assert len(row.log_probabilities) == len(row.ids)
        (alone,) = generate(model, [prompt], max_new_tokens=12, temperature=2.0, seed=seed, end_ids=[*ends, end])
        assert alone.ids == row.ids
        assert alone.log_probabilities == pytest.approx(row.log_probabilities, abs=1e-9)


@pytest.mark.mechanism("G1")
def test_no_row_ends_before_its_least_length_nor_goes_beyond_its_most():
    model = by_position({3: END, 7: END})
    held = generate(model, [[11] * 4, [12] * 2], max_new_tokens=6, min_new_tokens=4, end_ids=[END])
    assert [(len(row.ids), row.stopped, END in row.ids[:4]) for row in held] == [(5, True, False), (6, False, False)]
    assert [len(row.ids) for row in generate(model, [[11] * 4], max_new_tokens=1, min_new_tokens=1)] == [1]


@pytest.mark.mechanism("G2", "A6")
@pytest.mark.case("V081")
@pytest.mark.parametrize("name", [name for name in NAMES if name not in ENCODERS])
def test_prompts_of_different_lengths_are_continued_as_if_each_were_alone(name):
    depth = {f"architecture.{stack}.depth": 3 for stack in tiny(name).architecture.stacks}
    model = made(tiny(name, depth), lm_head(name))
    prompts = [words(1, length, seed=length)[0].tolist() for length in (2, 9, 5)]
    together = generate(model, prompts, max_new_tokens=6)
    for prompt, row in zip(prompts, together, strict=True):
        (alone,) = generate(model, [prompt], max_new_tokens=6)
        assert row.ids == alone.ids
        assert row.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-5)


@pytest.mark.mechanism("G3")
@pytest.mark.case("V020")
@pytest.mark.parametrize("name", SEQ2SEQ)
@pytest.mark.parametrize("start", [0, 2])
def test_an_encoder_decoder_starts_with_its_start_id_in_training_and_in_writing(name, start):
    model = made(tiny(name, {"architecture.decoder.input.start_id": start}), "seq2seq_lm")
    seen: list[list[int]] = []
    model.decoder.input.table.register_forward_hook(lambda module, args, out: seen.append(args[0][0].tolist()))
    (row,) = generate(model, [[11, 12, 13]], max_new_tokens=3)
    assert seen == [[start], [row.ids[0]], [row.ids[1]]]
    seen.clear()
    model(torch.tensor([[11, 12, 13]]), labels=torch.tensor([row.ids]))
    assert seen[-1] == [start, *row.ids[:2]]


@pytest.mark.mechanism("G3")
def test_an_encoder_decoder_stops_at_its_end():
    model = made("t5", "seq2seq_lm")
    (free,) = generate(model, [[11, 12, 13]], max_new_tokens=8)
    end = free.ids[3]
    (stopped,) = generate(model, [[11, 12, 13]], max_new_tokens=8, end_ids=[end])
    assert stopped.ids == free.ids[: free.ids.index(end) + 1] and stopped.stopped


@pytest.mark.mechanism("G4")
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_refuses_to_write_and_names_what_it_can_do(name):
    model = build_face(tiny(name), head=next(iter(tiny(name).architecture.heads)))
    for call in (lambda: require_decoder(model), lambda: model.generate([[7, 8]]), lambda: generate(model, [[7, 8]])):
        with pytest.raises(UsageError, match=f"{name} is an encoder: its attention is bidirectional") as error:
            call()
        assert "fill-mask or embed" in str(error.value) and error.value.exit_code == 2


@pytest.mark.mechanism("G4")
def test_a_decoder_without_its_language_model_head_refuses_too():
    with pytest.raises(UsageError, match="without a language-model head"):
        generate(build(tiny("gpt2"), head="sequence_classification"), [[7, 8]])


@pytest.mark.mechanism("G1")
@pytest.mark.parametrize("prompts", [[[]], [[7, 8], []]])
def test_a_prompt_without_tokens_is_refused(prompts):
    with pytest.raises(UsageError, match="empty prompt"):
        generate(build(tiny("gpt2"), head="causal_lm"), prompts)


@pytest.mark.mechanism("G1")
def test_no_prompts_give_no_rows():
    assert generate(build(tiny("gpt2"), head="causal_lm"), []) == []


@pytest.mark.mechanism("C15", "G1")
def test_more_words_than_the_position_table_has_room_for_are_refused_before_the_first():
    model = build(tiny("gpt2"), head="causal_lm")
    with pytest.raises(UsageError, match="more than the 80 this model takes; ask for at most 71"):
        generate(model, [[7] * 10], max_new_tokens=72)
    assert len(generate(model, [[7] * 10], max_new_tokens=71)[0].ids) == 71


@pytest.mark.mechanism("G2")
@pytest.mark.case("V092")
@pytest.mark.parametrize("name", ["gpt2", "t5", "bert"])
def test_scoring_only_the_last_position_scores_it_the_same(name):
    model, ids = made(name, lm_head(name)), words(2, 9)
    source = {"decoder_input_ids": ids} if name == "t5" else {}
    last = model(ids, logits_to_keep=1, **source).logits
    assert last.shape == (2, 1, 50)
    assert gap(last, model(ids, **source).logits[:, -1:]) < 1e-13


def _peak(pipe) -> None:
    """Bytes that one new word after 4,096 takes beyond the model, with 128,000 words to choose from."""
    stack = "architecture.decoder"
    spec = tiny("llama", {f"{stack}.depth": 2, f"{stack}.input.vocab": 128_000})
    model = build(spec, head="causal_lm")
    generate(model, [[7, 8]], max_new_tokens=1)
    before = peak_bytes()
    generate(model, [[7] * 4096], max_new_tokens=1)
    pipe.send(peak_bytes() - before)


@pytest.mark.mechanism("G2")
@pytest.mark.case("V092")
def test_a_prompt_of_4096_words_takes_far_less_than_its_scores_over_128_000_would():
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=_peak, args=(theirs,))
    process.start()
    try:
        assert mine.poll(60)
        extra = mine.recv()
    finally:
        process.kill()
        process.join()
    assert 0 <= extra < 200e6 < 4096 * 128_000 * 4


@pytest.mark.mechanism("K1")
def test_a_cache_can_be_continued_by_hand():
    model, ids = made("llama", "causal_lm"), words(1, 8)
    cache = Cache()
    with torch.no_grad():
        model(ids[:, :5], cache=cache)
        out = model(ids[:, 5:], cache=cache)
    assert gap(out.logits, model(ids).logits[:, 5:]) < 1e-12 and out.cache is cache


@pytest.mark.mechanism("K4", "K5", "K6")
@pytest.mark.parametrize("how", [{}, {"num_beams": 3}, {"prompt_lookup_num_tokens": 3}], ids=str)
def test_a_text_is_the_same_however_its_keys_are_kept_and_beginnings_are_read_once(how):
    model = made("llama", "causal_lm")
    before = words(1, 20, seed=1)[0].tolist()
    prompts = [[*before, 7], [*before, 9, 11]]
    plain = [row.ids for row in generate(model, prompts, max_new_tokens=8, **how)]
    for plan in (CachePlan(kind="paged", page=4), CachePlan(chunk=3)):
        kept = generate(model, prompts, max_new_tokens=8, keeping=Keeping(plan), **how)
        assert [row.ids for row in kept] == plain
    prefixes = PrefixCache(model, limit=10_000_000, piece=8)
    for known in (0, 1):
        again = generate(model, prompts[:1], max_new_tokens=8, keeping=Keeping(prefixes=prefixes), **how)
        assert again[0].ids == plain[0]
        assert prefixes.reused == 16 * known
