"""Each rule of choice does to scores what the published one does, and chance follows the probabilities exactly."""

from __future__ import annotations

import itertools
import math

import pytest
import scipy.stats
import torch
from transformers.generation import logits_process as published

from tests.tiny_specs import made
from variorum.errors import UsageError
from variorum.inference.generate import generate
from variorum.inference.sampling import Sampling

VOCAB = 40
PROMPT, WRITTEN = [3, 7, 7, 9, 4], [7, 9, 12, 7]


def scores(rows: int = 3, seed: int = 0) -> torch.Tensor:
    return 3 * torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.mechanism("G1")
@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize(
    ("rule", "theirs"),
    [
        ({}, None),
        ({"top_k": 5}, published.TopKLogitsWarper(5)),
        ({"top_p": 0.7}, published.TopPLogitsWarper(0.7)),
        ({"min_p": 0.1}, published.MinPLogitsWarper(0.1)),
        ({"typical_p": 0.6}, published.TypicalLogitsWarper(0.6)),
    ],
    ids=lambda one: next(iter(one), "all") if isinstance(one, dict) else "",
)
def test_what_is_drawn_from_is_what_the_published_rule_leaves(rule: dict, theirs: object, temperature: float) -> None:
    given = scores()
    right = given / temperature
    if theirs is not None:
        right = theirs(None, right.clone())  # type: ignore[operator]
    found = Sampling(temperature=temperature, **rule).probabilities(given)
    assert float((found - right.softmax(-1)).abs().max()) < 1e-12
    assert torch.equal(found > 0, right.softmax(-1) > 0)


@pytest.mark.parametrize(
    ("rule", "theirs"),
    [
        ({"repetition_penalty": 1.5}, published.RepetitionPenaltyLogitsProcessor(1.5)),
        ({"no_repeat_ngram": 2}, published.NoRepeatNGramLogitsProcessor(2)),
        ({"no_repeat_ngram": 3}, published.NoRepeatNGramLogitsProcessor(3)),
        ({"suppressed": (1, 5)}, published.SuppressTokensLogitsProcessor([1, 5])),
        ({"min_new_tokens": 5}, published.MinNewTokensLengthLogitsProcessor(len(PROMPT), 5, [2, 6])),
        ({"min_new_tokens": 4}, published.MinNewTokensLengthLogitsProcessor(len(PROMPT), 4, [2, 6])),
    ],
    ids=lambda one: "-".join(f"{k}={v}" for k, v in one.items()) if isinstance(one, dict) else "",
)
def test_what_was_written_weighs_as_in_the_published_rule(rule: dict, theirs: object) -> None:
    row = scores(1)[0]
    right = theirs(torch.tensor([PROMPT + WRITTEN]), row[None].clone())[0]  # type: ignore[operator]
    assert torch.equal(Sampling(**rule).penalised(row, PROMPT, WRITTEN, [2, 6]), right)


@pytest.mark.case("V077")
def test_a_nucleus_holds_the_token_that_reaches_its_mass() -> None:
    shares = torch.tensor([[0.4, 0.3, 0.2, 0.1]], dtype=torch.float64)
    kept = {
        p: Sampling(temperature=1.0, top_p=p).probabilities(shares.log())[0] for p in (0.8, 0.65, 1.0)
    }  # fmt: skip
    assert [int((kept[p] > 0).sum()) for p in (0.8, 0.65, 1.0)] == [3, 2, 4]
    assert kept[0.8].tolist() == pytest.approx([0.4 / 0.9, 0.3 / 0.9, 0.2 / 0.9, 0.0], abs=1e-12)


@pytest.mark.case("V079")
def test_a_penalty_makes_a_repeated_token_less_likely_whatever_its_sign() -> None:
    row = torch.tensor([2.0, -1.0, 0.5])
    found = Sampling(repetition_penalty=1.5).penalised(row, [0, 0], [0, 1], [])
    assert found.tolist() == pytest.approx([2 / 1.5, -1.5, 0.5])
    assert row.tolist() == [2.0, -1.0, 0.5]  # scores are not changed in place


def test_presence_counts_once_and_frequency_each_time() -> None:
    row = torch.zeros(5)
    found = Sampling(presence_penalty=1.0, frequency_penalty=0.25).penalised(row, [4, 4, 4], [1, 1, 3], [])
    assert found.tolist() == [0.0, -1.5, 0.0, -1.25, 0.0]  # the prompt was not written


@pytest.mark.mechanism("G1")
@pytest.mark.parametrize(
    "rule", [{}, {"top_k": 6}, {"top_p": 0.8}, {"min_p": 0.05}, {"typical_p": 0.8}], ids=lambda r: next(iter(r), "all")
)
def test_draws_follow_their_probabilities(rule: dict) -> None:
    sampling = Sampling(temperature=1.3, seed=5, **rule)
    row, draws = scores(1, seed=9), 20_000
    shares = sampling.probabilities(row)[0]
    [own] = sampling.generators(1)
    counts = torch.bincount(torch.multinomial(shares, draws, replacement=True, generator=own), minlength=VOCAB)
    alone = [int(sampling.choose(row, [own])) for _ in range(300)]
    assert all(float(shares[token]) > 0 for token in alone)
    assert int(counts[shares == 0].sum()) == 0
    likely = shares * draws >= 5
    expected = (shares * draws)[likely]
    observed = counts[likely].double() * (expected.sum() / counts[likely].sum())
    assert scipy.stats.chisquare(observed.numpy(), expected.numpy()).pvalue > 1e-4


def test_single_draws_are_the_distribution_too() -> None:
    sampling = Sampling(temperature=1.0)
    row = torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64).log()
    [own] = sampling.generators(1)
    counts = torch.bincount(torch.tensor([int(sampling.choose(row, [own])) for _ in range(5000)]), minlength=3)
    assert scipy.stats.chisquare(counts.numpy(), [2500, 1500, 1000]).pvalue > 1e-4


@pytest.mark.case("V080")
@pytest.mark.parametrize("temperature", [0.0, 1e-9])
def test_no_temperature_is_the_likeliest_token_the_lowest_on_ties(temperature: float) -> None:
    tied = torch.tensor([[1.0, 5.0, 5.0, 2.0]], dtype=torch.float16)
    assert Sampling(temperature=temperature).choose(tied, []).tolist() == [1]


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.2}, {"top_k": 0}, {"min_p": -0.1}, {"repetition_penalty": 0.0},
     {"temperature": math.nan}, {"no_repeat_ngram": -1}],
    ids=str,
)  # fmt: skip
def test_what_makes_no_choice_is_refused(wrong: dict) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Sampling(**wrong)


@pytest.mark.case("V081")
@pytest.mark.parametrize("name", ["llama", "t5", "transformer-xl"])
def test_a_row_draws_as_it_would_beside_others(name: str) -> None:
    head = "seq2seq_lm" if name == "t5" else "causal_lm"
    model = made(name, head)
    prompts = [[7, 9, 11], [8, 8, 12, 13, 20], [30]]
    sampling = Sampling(temperature=1.0, top_k=20, repetition_penalty=1.2, seed=4)
    together = generate(model, prompts, max_new_tokens=9, end_ids=[6, 17], sampling=sampling)
    first = generate(model, prompts[:1], max_new_tokens=9, end_ids=[6, 17], sampling=sampling)
    assert together[0].ids == first[0].ids
    assert together[0].log_probabilities == pytest.approx(first[0].log_probabilities, abs=1e-6)
    again = generate(model, prompts, max_new_tokens=9, end_ids=[6, 17], sampling=sampling)
    assert [one.ids for one in again] == [one.ids for one in together]
    other = generate(model, prompts, max_new_tokens=9, sampling=Sampling(temperature=1.0, seed=5))
    assert [one.ids for one in other] != [one.ids for one in together]
    for row in together:
        assert row.stopped == (row.ids[-1] in (6, 17))
        assert not {6, 17} & set(row.ids[:-1])


def test_no_run_of_two_tokens_comes_twice() -> None:
    model = made("gpt2", "causal_lm")
    [row] = generate(model, [[7, 9, 7]], max_new_tokens=40, sampling=Sampling(no_repeat_ngram=2))
    text = [7, 9, 7, *row.ids]
    pairs = list(itertools.pairwise(text))
    assert len(pairs) == len(set(pairs))
