"""A search over beams finds what the published one finds, and with beams enough the best text there is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch

import variorum
from tests.parity import oracle
from tests.parity.case import materialise
from tests.parity.tiny import named
from tests.tiny_specs import made, tiny, words
from variorum.errors import UsageError
from variorum.inference.beam import Candidate, Search
from variorum.inference.generate import generate
from variorum.inference.habits import forced
from variorum.inference.lines import Line, Written
from variorum.inference.strategy import Beams, Strategy
from variorum.model import Model

NEW = 9
CASES = ("gpt2/causal_lm", "t5/seq2seq_lm", "bart/seq2seq_lm")
SETTINGS: tuple[dict[str, Any], ...] = (
    {"num_beams": 3},
    {"num_beams": 4, "num_return_sequences": 4, "length_penalty": 0.0},
    {"num_beams": 4, "num_return_sequences": 3, "length_penalty": 2.0, "early_stopping": True},
    {"num_beams": 3, "num_return_sequences": 2, "length_penalty": -1.0, "early_stopping": "never"},
    {"num_beams": 2, "num_return_sequences": 2, "length_penalty": 1.5, "early_stopping": "never"},
    {"num_beams": 5, "num_return_sequences": 2, "early_stopping": True, "no_repeat_ngram_size": 2},
    {"num_beams": 3, "num_return_sequences": 3, "min_new_tokens": 4, "repetition_penalty": 1.4},
    {"num_beams": 4, "forced_eos_token_id": 2, "suppress_tokens": [11, 30], "num_return_sequences": 2},
)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Model]]:
    """The published model and ours, in float64."""
    found = {}
    for name in CASES:
        root = materialise(named(name), tmp_path_factory.mktemp("beam"))
        (root / "generation_config.json").unlink(missing_ok=True)
        found[name] = oracle.load64(root, named(name).oracle), variorum.load(root, dtype="float64")
    return found


def theirs(model: Any, prompts: Sequence[Sequence[int]], ends: Sequence[int], setting: dict[str, Any]) -> list[Written]:
    """The published search over prompts of one length."""
    ids = torch.tensor(prompts)
    before = 1 if model.config.is_encoder_decoder else ids.shape[1]
    with torch.no_grad(), oracle.exact(watch=False):
        out = model.generate(
            ids, max_new_tokens=NEW, do_sample=False, eos_token_id=list(ends), pad_token_id=96, output_scores=True,
            return_dict_in_generate=True, **setting,
        )  # fmt: skip
    rows = []
    for row, score in zip(out.sequences[:, before:].tolist(), out.sequences_scores.tolist(), strict=True):
        end = next((place + 1 for place, token in enumerate(row) if token in ends), len(row))
        rows.append(Written(row[:end], [], row[end - 1] in ends, score))
    return rows


@pytest.mark.mechanism("G1", "G3")
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: "-".join(f"{k}={v}" for k, v in one.items()))
@pytest.mark.parametrize("name", CASES)
def test_it_finds_what_the_published_search_finds(name: str, setting: dict[str, Any], pairs: dict[str, Any]) -> None:
    published, ours = pairs[name]
    prompts = words(3, 7, seed=len(setting)).tolist()
    free = generate(ours, prompts, max_new_tokens=NEW, fixed=forced(ours))
    ends = sorted({free[0].ids[2], free[1].ids[4]})  # likely ones, so that many texts end
    right = theirs(published, prompts, ends, setting)
    given = dict(setting)
    last = given.pop("forced_eos_token_id", forced(ours).last)
    fixed = type(forced(ours))(forced(ours).start, forced(ours).first, last)
    found = generate(ours, prompts, max_new_tokens=NEW, end_ids=ends, fixed=fixed, **given)
    assert [row.ids for row in found] == [row.ids for row in right]
    assert [row.score for row in found] == pytest.approx([row.score for row in right], abs=1e-9)
    assert any(row.stopped for row in found) or setting["length_penalty"] > 1
    for number, prompt in enumerate(prompts):
        alone = generate(ours, [prompt], max_new_tokens=NEW, end_ids=ends, fixed=fixed, **given)
        each = setting.get("num_return_sequences", 1)
        assert [row.ids for row in alone] == [row.ids for row in found[number * each : (number + 1) * each]]


def every_text(model: Model, prompt: list[int], vocab: int, longest: int, end: int) -> list[tuple[list[int], float]]:
    """All texts that end or are as long as they may be, with their log-probabilities."""
    whole = torch.tensor([[*prompt, *rest] for rest in itertools.product(range(vocab), repeat=longest)])
    with torch.no_grad():
        logs = model(whole).logits.log_softmax(-1)
    found = {}
    for row, scores in zip(whole.tolist(), logs, strict=True):
        ids = row[len(prompt) :]
        ids = ids[: ids.index(end) + 1] if end in ids else ids
        found[tuple(ids)] = sum(float(scores[len(prompt) + n - 1, token]) for n, token in enumerate(ids))
    return [(list(ids), total) for ids, total in found.items()]


@pytest.mark.mechanism("G1")
@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.5, -1.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_with_beams_for_every_text_it_finds_the_best_ones_of_all(penalty: float, seed: int) -> None:
    vocab, longest, end = 5, 4, 1
    model = made(tiny("gpt2", {"architecture.decoder.input.vocab": vocab}), "causal_lm", seed=seed)
    prompt = [2, 4, 3]
    texts = every_text(model, prompt, vocab, longest, end)
    ranked = sorted(texts, key=lambda text: -text[1] / len(text[0]) ** penalty)
    found = generate(
        model, [prompt], max_new_tokens=longest, end_ids=[end], num_beams=len(texts), num_return_sequences=20,
        length_penalty=penalty, early_stopping="never",
    )  # fmt: skip
    assert [row.ids for row in found] == [ids for ids, _ in ranked[:20]]
    assert [row.score for row in found] == pytest.approx([t / len(ids) ** penalty for ids, t in ranked[:20]], abs=1e-9)
    assert [sum(row.log_probabilities) for row in found] == pytest.approx([total for _, total in ranked[:20]], abs=1e-9)
    narrow = generate(model, [prompt], max_new_tokens=longest, end_ids=[end], num_beams=3, length_penalty=penalty)
    known = {tuple(ids): total / len(ids) ** penalty for ids, total in texts}
    assert known[tuple(narrow[0].ids)] == pytest.approx(narrow[0].score, abs=1e-9)


@pytest.mark.mechanism("G1")
@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "t5", "bart", "transformer-xl", "deepseek-v3"])
def test_one_beam_writes_what_greed_writes_and_beams_follow_their_own_past(name: str) -> None:
    model = made(name, "seq2seq_lm" if name in ("t5", "bart") else "causal_lm")
    prompts = [words(1, length, seed=length)[0].tolist() for length in (2, 9, 5)]
    greedy = generate(model, prompts, max_new_tokens=8)
    assert [row.ids for row in generate(model, prompts, max_new_tokens=8, num_beams=1)] == [row.ids for row in greedy]
    searched = generate(model, prompts, max_new_tokens=8, num_beams=3, num_return_sequences=3)
    again = generate(model, prompts, max_new_tokens=8, num_beams=3, num_return_sequences=3, use_cache=False)
    if name != "transformer-xl":  # without its memory it sees what is older than that
        assert [row.ids for row in searched] == [row.ids for row in again]
    for row, prompt in zip(searched[::3], prompts, strict=True):
        assert row.score is not None
        [free] = generate(model, [prompt], max_new_tokens=8)
        # Three beams may lose the greedy text on the way; what they report is the model's own score of what they say.
        assert row.score == pytest.approx(sum(row.log_probabilities) / len(row.ids), abs=1e-9)
        assert row.score >= sum(free.log_probabilities) / len(free.ids) - 1e-9 or row.ids != free.ids


def test_a_search_of_one_beam_without_ends_is_greed() -> None:
    model, prompt = made("gpt2", "causal_lm"), [7, 9, 11]
    [greedy] = generate(model, [prompt], max_new_tokens=6)
    strategy = Strategy.of(max_new_tokens=6)
    one, ids = Search(Line(prompt, strategy)), list(prompt)
    while not one.done:
        logs = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        best = logs.topk(2)
        one.advance([
            Candidate(one.totals[0] + value, 0, token, value)
            for value, token in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ])  # fmt: skip
        ids = [*prompt, *one.running[0].ids]
    assert one.best()[0].ids == greedy.ids


@pytest.mark.case("V075")
def test_a_length_penalty_of_one_divides_by_length_and_larger_ones_favour_longer_texts() -> None:
    short, long = (-1.0, 2), (-1.6, 4)
    for penalty, right, better in ((0.0, (-1.0, -1.6), 0), (1.0, (-0.5, -0.4), 1), (-1.0, (-2.0, -6.4), 0)):
        worth = [Beams(num_beams=2, length_penalty=penalty).worth(*text) for text in (short, long)]
        assert worth == pytest.approx(right)
        assert worth.index(max(worth)) == better


@pytest.mark.case("V075")
@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_the_end_token_counts_in_the_length_of_every_text(penalty: float) -> None:
    model = made("gpt2", "causal_lm")
    end = generate(model, [[7, 9, 11]], max_new_tokens=8)[0].ids[3]
    search = {
        "max_new_tokens": 8,
        "num_beams": 6,
        "num_return_sequences": 6,
        "length_penalty": penalty,
        "early_stopping": True,
    }
    found = generate(model, [[7, 9, 11]], end_ids=[end], **search)
    assert any(row.stopped for row in found)
    for row in (*found, *generate(model, [[7, 9, 11]], **search)):
        assert row.stopped == (row.ids[-1] == end and row in found)
        assert row.score == pytest.approx(sum(row.log_probabilities) / len(row.ids) ** penalty)
    assert found == sorted(found, key=lambda row: -(row.score or 0))


def test_stop_strings_end_a_text_within_a_search() -> None:
    from tests.cli.models import pieces

    model = made(tiny("gpt2", {"architecture.decoder.input.vocab": pieces().vocab_size}), "causal_lm")
    model.tokenizer = pieces()
    prompt = model.tokenizer.encode("The law").ids
    free = generate(model, [prompt], max_new_tokens=6, num_beams=3)[0]
    stop = model.tokenizer.decode(free.ids[1:3])[1:3]
    held = generate(model, [prompt], max_new_tokens=6, num_beams=3, num_return_sequences=3, stop_strings=[stop])
    texts = [model.tokenizer.decode(row.ids) for row in held]
    assert any(row.stopped for row in held)
    for row, text in zip(held, texts, strict=True):
        assert row.stopped == (stop in text)
        assert stop not in model.tokenizer.decode(row.ids[:-1])


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"num_beams": 0}, "num_beams is 0"),
        ({"num_return_sequences": 2}, "2 texts of 1 beams"),
        ({"num_beams": 2, "early_stopping": "soon"}, "early_stopping is 'soon'"),
        ({"num_beams": 2, "temperature": 0.7}, "searched, not drawn"),
        ({"num_beams": 2, "prompt_lookup_num_tokens": 3}, "beams take no drafts"),
        ({"nums_beam": 2}, "did you mean num_beams"),
    ],
    ids=str,
)
def test_a_search_that_makes_no_sense_is_refused(wrong: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        generate(made("gpt2", "causal_lm"), [[7, 8]], **wrong)
