"""Drafts change how often the model is read, never what is written: the same text greedily, the same chances drawn."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.inference.test_sampling import LEVEL, fits
from tests.tiny_specs import made, tiny, words
from variorum.errors import UsageError
from variorum.inference.generate import generate
from variorum.inference.lines import Line
from variorum.inference.speculative import Guess, Lookup, speculate
from variorum.inference.strategy import Strategy
from variorum.inference.writer import begin
from variorum.model import Model

PROMPT = [3, 7, 3, 5, 3, 7]
#: The shapes of state that drafts are taken back from: keys and values, a window, latent, slopes, a memory, an encoder.
WRITERS = ("gpt2", "llama", "mistral", "gemma-3", "deepseek-v3", "bloom", "t5", "bart", "transformer-xl")
DRAFTS: tuple[dict[str, Any], ...] = (
    {"prompt_lookup_num_tokens": 4},
    {"prompt_lookup_num_tokens": 1, "max_matching_ngram_size": 1},
    {"assistant_model": 1, "num_assistant_tokens": 3},
    {"assistant_model": 0, "num_assistant_tokens": 4},
)


def head(name: str) -> str:
    return "seq2seq_lm" if name in ("t5", "bart") else "causal_lm"


def helped(name: str, drafts: dict[str, Any], values: dict[str, object] | None = None) -> dict[str, Any]:
    """``drafts`` with the model that its number seeds."""
    if "assistant_model" not in drafts:
        return drafts
    return {**drafts, "assistant_model": made(tiny(name, values), head(name), seed=drafts["assistant_model"])}


@pytest.mark.mechanism("G1", "G2")
@pytest.mark.parametrize("drafts", DRAFTS, ids=str)
@pytest.mark.parametrize("name", WRITERS)
def test_greedily_the_text_is_what_it_is_without(name: str, drafts: dict[str, Any]) -> None:
    model = made(name, head(name))
    prompts = [words(1, length, seed=length)[0].tolist() for length in (2, 9, 5)]
    rules = {"max_new_tokens": 14, "end_ids": [5], "no_repeat_ngram_size": 4, "min_new_tokens": 3}
    plain = generate(model, prompts, **rules)
    found = generate(model, prompts, **rules, **helped(name, drafts))
    assert [row.ids for row in found] == [row.ids for row in plain]
    for row, right in zip(found, plain, strict=True):
        assert row.log_probabilities == pytest.approx(right.log_probabilities, abs=1e-9)
        assert row.stopped == right.stopped and row.guesses is not None
        # Every reading gives one token of the model's own beside the guesses kept; the first is read with the prompt.
        assert row.guesses.accepted <= row.guesses.guessed
        assert 1 + row.guesses.steps + row.guesses.accepted - len(row.ids) in (0, 1)


def test_a_model_that_guesses_for_itself_is_always_right() -> None:
    model = made("llama", "causal_lm")
    [row] = generate(model, [[7, 9, 11]], max_new_tokens=16, assistant_model=model, num_assistant_tokens=4)
    assert row.guesses is not None
    assert (row.guesses.guessed, row.guesses.accepted, row.guesses.steps) == (12, 12, 3)  # 1 + 3 × (4 + 1)


def test_a_text_that_goes_round_is_looked_up() -> None:
    model = made("gpt2", "causal_lm")
    text = generate(model, [[7, 9, 11]], max_new_tokens=40)[0].ids
    [row] = generate(model, [[7, 9, 11]], max_new_tokens=40, prompt_lookup_num_tokens=8)
    assert row.ids == text and row.guesses is not None
    assert len(set(itertools.pairwise(text))) < len(text) - 1  # it does go round
    assert row.guesses.steps < 39


def test_what_is_looked_up_followed_the_longest_run_where_it_first_stood() -> None:
    line = Line([1, 2, 3, 9, 2, 3, 8], Strategy())
    line.ids = [5, 2, 3]
    assert [guess.token for guess in Lookup([], 2).guess(line, 3)] == [9, 2, 3]
    assert [guess.token for guess in Lookup([], 1).guess(line, 2)] == [9, 2]
    assert [guess.token for guess in Lookup([2, 3, 4, 4], 2).guess(line, 9)] == [4, 4, 1, 2, 3, 9, 2, 3, 8]
    line.ids = [6]
    assert Lookup([], 2).guess(line, 3) == []


def exact(model: Model, sampling: Any, length: int) -> dict[tuple[int, ...], float]:
    """The probability of every text of ``length`` tokens."""
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        texts = list(found)
        with torch.no_grad():
            logits = model(torch.tensor([[*PROMPT, *text] for text in texts])).logits[:, -1]
        shares = sampling.distribution(logits).tolist()
        found = {
            (*text, token): found[text] * share
            for text, row in zip(texts, shares, strict=True)
            for token, share in enumerate(row)
            if share > 0
        }
    return found


@pytest.mark.mechanism("G1")
@pytest.mark.parametrize("rule", [{"temperature": 1.2}, {"temperature": 0.8, "top_p": 0.9}], ids=str)
@pytest.mark.parametrize("drafts", [*DRAFTS[:3], {"assistant_model": 1, "num_assistant_tokens": 1}], ids=str)
def test_drawn_texts_come_as_often_as_they_would_without(drafts: dict[str, Any], rule: dict[str, float]) -> None:
    small = {"architecture.decoder.input.vocab": 8, "architecture.decoder.depth": 1}
    model = made(tiny("gpt2", small), "causal_lm")
    strategy = Strategy.of(max_new_tokens=3, **rule)
    shares = exact(model, strategy.sampling, 3)
    assert sum(shares.values()) == pytest.approx(1)
    rows = generate(model, 800 * [PROMPT], max_new_tokens=3, seed=11, **rule, **helped("gpt2", drafts, small))
    places = {text: place for place, text in enumerate(shares)}
    counts = torch.bincount(torch.tensor([places[tuple(row.ids)] for row in rows]), minlength=len(shares))
    assert fits(counts, torch.tensor(list(shares.values()))) > LEVEL
    guesses = [row.guesses for row in rows if row.guesses is not None]
    assert sum(one.accepted for one in guesses) < sum(one.guessed for one in guesses)  # some were refused, and redrawn


@pytest.mark.mechanism("G1")
@pytest.mark.parametrize("certain", [True, False])
def test_a_token_that_was_guessed_badly_is_drawn_as_if_it_had_not_been(certain: bool) -> None:
    """Guesses far from the model's chances, many times: the chances of the next two tokens are still the model's."""
    small = {"architecture.decoder.input.vocab": 8, "architecture.decoder.depth": 1}
    model = made(tiny("gpt2", small), "causal_lm")
    strategy = Strategy.of(max_new_tokens=3, temperature=1.0, prompt_lookup_num_tokens=2)
    skewed = torch.tensor([0.6, 0.2, 0.1, 0.1, 0, 0, 0, 0], dtype=torch.float64)

    class Bad:
        def guess(self, line: Line, count: int) -> list[Guess]:
            tokens = chance.choices(range(8), weights=skewed.tolist(), k=count)
            return [Guess(0 if certain else token, None if certain else skewed) for token in tokens]

    chance, shares = random.Random(5), exact(model, strategy.sampling, 3)
    places = {text: place for place, text in enumerate(shares)}
    counts: Tensor = torch.zeros(len(shares), dtype=torch.long)
    for _ in range(1_200):
        line = Line(PROMPT, strategy)
        steps: Iterator[None] = speculate(begin(model, [PROMPT]), line, chance, Bad())
        assert all(step is None for step in steps)
        counts[places[tuple(line.ids)]] += 1
    assert fits(counts, torch.tensor(list(shares.values()))) > LEVEL


def test_a_guesser_stops_at_its_own_longest_input_and_the_text_goes_on() -> None:
    model = made("gpt2", "causal_lm")
    short = made(tiny("gpt2", {"architecture.decoder.input.positions.rows": 12}), "causal_lm", seed=1)
    prompts = [[7, 9, 11], words(1, 20)[0].tolist()]
    plain = generate(model, prompts, max_new_tokens=30)
    found = generate(model, prompts, max_new_tokens=30, assistant_model=short, num_assistant_tokens=5)
    assert [row.ids for row in found] == [row.ids for row in plain]
    assert found[1].guesses is not None and found[1].guesses.guessed == 0


def test_spare_rows_of_the_guesser_are_never_guessed() -> None:
    wide, narrow = (made(tiny("gpt2", {"architecture.decoder.input.vocab": size}), "causal_lm") for size in (60, 50))

    class Names:
        engine = type("Engine", (), {"names": [str(n) for n in range(50)]})()

    wide.tokenizer = narrow.tokenizer = Names()
    for model, helper in ((wide, narrow), (narrow, wide)):
        plain = generate(model, [[7, 9, 11]], max_new_tokens=20)
        assert generate(model, [[7, 9, 11]], max_new_tokens=20, assistant_model=helper)[0].ids == plain[0].ids


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"num_assistant_tokens": 3}, "guesses come from a model or from the text"),
        ({"prompt_lookup_num_tokens": 0}, "prompt_lookup_num_tokens is 0"),
        ({"prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 0}, "max_matching_ngram_size is 0"),
    ],
    ids=str,
)
def test_drafts_that_guess_nothing_are_refused(wrong: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        generate(made("gpt2", "causal_lm"), [[7, 8]], **wrong)


def test_a_guesser_of_another_tokenizer_or_another_kind_is_refused() -> None:
    model = made("gpt2", "causal_lm")
    other = made(tiny("gpt2", {"architecture.decoder.input.vocab": 60}), "causal_lm")
    for helper, line in ((other, "another tokenizer"), (made("t5", "seq2seq_lm"), "only one of them continues")):
        with pytest.raises(UsageError, match=line):
            generate(model, [[7, 8]], assistant_model=helper)
    model.tokenizer, other.tokenizer = (type("T", (), {"engine": type("E", (), {"names": [n]})()})() for n in "ab")
    with pytest.raises(UsageError, match="another tokenizer"):
        generate(model, [[7, 8]], assistant_model=other)
