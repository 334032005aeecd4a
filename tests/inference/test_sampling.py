"""Each rule of choice does to scores what the published one does, and chance follows the probabilities exactly."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import scipy.stats
import torch
from torch import Tensor
from transformers.generation import logits_process as published

from tests.tiny_specs import made
from variorum.errors import UsageError
from variorum.inference.generate import generate
from variorum.inference.sampling import Sampling, drawn
from variorum.inference.strategy import Forced, Strategy

VOCAB = 40
PROMPT, WRITTEN = [3, 7, 7, 9, 4], [7, 9, 12, 7]
#: A right sampler fails a test with fixed seeds at this level once in ten thousand choices of the seed.
LEVEL = 1e-4


def scores(rows: int = 3, seed: int = 0) -> Tensor:
    return 3 * torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def fits(counts: Tensor, shares: Tensor) -> float:
    """The p-value of counts [V] under shares [V]: chi-square over what is expected five times, the rest together."""
    expected = shares.double() * counts.sum()
    rare = expected < 5
    groups = [(counts[~rare].double(), expected[~rare])]
    if float(expected[rare].sum()) >= 5:
        groups.append((counts[rare].sum()[None].double(), expected[rare].sum()[None]))
    seen, wanted = (torch.cat(parts) for parts in zip(*groups, strict=True))
    return float(scipy.stats.chisquare(seen.numpy(), (wanted * seen.sum() / wanted.sum()).numpy()).pvalue)


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
    found = Sampling(temperature=temperature, **rule).distribution(given)
    assert float((found - right.softmax(-1)).abs().max()) < 1e-12
    assert torch.equal(found > 0, right.softmax(-1) > 0)


@pytest.mark.parametrize(
    ("rule", "theirs"),
    [
        ({"repetition_penalty": 1.5}, published.RepetitionPenaltyLogitsProcessor(1.5)),
        ({"no_repeat_ngram_size": 2}, published.NoRepeatNGramLogitsProcessor(2)),
        ({"no_repeat_ngram_size": 3}, published.NoRepeatNGramLogitsProcessor(3)),
        ({"suppress_tokens": (1, 5)}, published.SuppressTokensLogitsProcessor([1, 5])),
        (
            {"bad_words_ids": ((5,), (12, 7, 8), (7, 3), (1, 7, 2))},
            published.NoBadWordsLogitsProcessor([[5], [12, 7, 8], [7, 3], [1, 7, 2]]),
        ),
    ],
    ids=lambda one: "-".join(f"{k}={v}" for k, v in one.items()) if isinstance(one, dict) else "",
)
def test_what_was_written_weighs_as_in_the_published_rule(rule: dict, theirs: object) -> None:
    row = scores(1)[0]
    right = theirs(torch.tensor([PROMPT + WRITTEN]), row[None].clone())[0]  # type: ignore[operator]
    assert torch.equal(Sampling(**rule).penalised(row, PROMPT, WRITTEN), right)


@pytest.mark.parametrize(
    ("written", "rule", "theirs"),
    [
        (4, {"min_new_tokens": 5}, published.MinNewTokensLengthLogitsProcessor(1, 5, [2, 6])),
        (4, {"min_new_tokens": 4}, published.MinNewTokensLengthLogitsProcessor(1, 4, [2, 6])),
        (0, {"begin_suppress_tokens": (3, 9)}, published.SuppressTokensAtBeginLogitsProcessor([3, 9], 1)),
        (1, {"begin_suppress_tokens": (3, 9)}, published.SuppressTokensAtBeginLogitsProcessor([3, 9], 1)),
        (0, {"fixed": Forced(first=8)}, published.ForcedBOSTokenLogitsProcessor(8)),
        (1, {"fixed": Forced(first=8)}, published.ForcedBOSTokenLogitsProcessor(8)),
        (8, {"fixed": Forced(last=8)}, published.ForcedEOSTokenLogitsProcessor(10, 8)),
        (7, {"fixed": Forced(last=8)}, published.ForcedEOSTokenLogitsProcessor(10, 8)),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else str(one) if isinstance(one, int) else "",
)
def test_beginning_and_end_are_ruled_as_in_the_published_rule(written: int, rule: dict, theirs: object) -> None:
    text = [5, 11, 12, 13, 14, 15, 16, 17, 18][: written + 1]
    row = scores(1)[0]
    right = theirs(torch.tensor([text]), row[None].clone())[0]  # type: ignore[operator]
    strategy = Strategy.of(max_new_tokens=9, end_ids=[2, 6], **rule)
    assert strategy.changes_scores
    assert torch.equal(strategy.scores(row, text[:1], text[1:]), right)


def test_rules_act_in_the_published_order() -> None:
    """All of them together: a list of published processors in the order in which that code builds it."""
    chain = [
        published.RepetitionPenaltyLogitsProcessor(1.3),
        published.NoRepeatNGramLogitsProcessor(2),
        published.NoBadWordsLogitsProcessor([[12, 7, 8]]),
        published.MinNewTokensLengthLogitsProcessor(len(PROMPT), 9, [2, 6]),
        published.SuppressTokensLogitsProcessor([1, 5]),
        published.TemperatureLogitsWarper(0.7),
        published.TopKLogitsWarper(12),
        published.TopPLogitsWarper(0.9),
        published.MinPLogitsWarper(0.02),
        published.TypicalLogitsWarper(0.95),
    ]
    strategy = Strategy.of(
        end_ids=[2, 6], min_new_tokens=9, repetition_penalty=1.3, no_repeat_ngram_size=2, bad_words_ids=[[12, 7, 8]],
        suppress_tokens=[1, 5], temperature=0.7, top_k=12, top_p=0.9, min_p=0.02, typical_p=0.95,
    )  # fmt: skip
    for row in scores(8, seed=3):
        right = row[None].clone()
        for rule in chain:
            right = rule(torch.tensor([PROMPT + WRITTEN]), right)
        found = strategy.sampling.distribution(strategy.scores(row, PROMPT, WRITTEN)[None])
        assert float((found - right.softmax(-1)).abs().max()) < 1e-12


@pytest.mark.case("V077")
def test_a_nucleus_holds_the_token_that_reaches_its_mass() -> None:
    shares = torch.tensor([[0.4, 0.3, 0.2, 0.1]], dtype=torch.float64)
    kept = {
        p: Sampling(temperature=1.0, top_p=p).distribution(shares.log())[0] for p in (0.8, 0.65, 1.0)
    }  # fmt: skip
    assert [int((kept[p] > 0).sum()) for p in (0.8, 0.65, 1.0)] == [3, 2, 4]
    assert kept[0.8].tolist() == pytest.approx([0.4 / 0.9, 0.3 / 0.9, 0.2 / 0.9, 0.0], abs=1e-12)


@pytest.mark.parametrize("rule", [{"top_p": 0.9}, {"typical_p": 0.7}, {"top_p": 0.9999}], ids=str)
def test_a_nucleus_of_a_wide_vocabulary_with_ties_is_the_one_by_full_order(rule: dict) -> None:
    wide = (4 * torch.randn(4, 5000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).round()
    wide[3] = 0.0
    found = Sampling(temperature=1.0, **rule).distribution(wide)
    [(name, mass)] = rule.items()
    logs = wide.log_softmax(-1)
    order = -logs.exp() if name == "top_p" else (-logs + (logs.exp() * logs).sum(-1, keepdim=True)).abs()
    for row, ranks, shares in zip(found, order, logs.exp(), strict=True):
        ids = sorted(range(5000), key=lambda id: (float(ranks[id]), id))
        count = int((shares[ids].cumsum(0) < mass - 1e-12).sum()) + 1
        assert set(row.nonzero()[:, 0].tolist()) == set(ids[:count])


@pytest.mark.case("V079")
def test_a_penalty_makes_a_repeated_token_less_likely_whatever_its_sign() -> None:
    row = torch.tensor([2.0, -1.0, 0.5])
    found = Sampling(repetition_penalty=1.5).penalised(row, [0, 0], [0, 1])
    assert found.tolist() == pytest.approx([2 / 1.5, -1.5, 0.5])
    assert row.tolist() == [2.0, -1.0, 0.5]  # scores are not changed in place


def test_presence_counts_once_and_frequency_each_time() -> None:
    row = torch.zeros(5)
    found = Sampling(presence_penalty=1.0, frequency_penalty=0.25).penalised(row, [4, 4, 4], [1, 1, 3])
    assert found.tolist() == [0.0, -1.5, 0.0, -1.25, 0.0]  # the prompt was not written


@pytest.mark.mechanism("G1")
@pytest.mark.parametrize(
    "rule",
    [{}, {"top_k": 6}, {"top_p": 0.8}, {"min_p": 0.05}, {"typical_p": 0.8}, {"top_k": 8, "top_p": 0.9, "min_p": 0.02}],
    ids=lambda rule: "-".join(rule) or "all",
)
def test_draws_follow_their_probabilities(rule: dict) -> None:
    sampling = Sampling(temperature=1.3, seed=5, **rule)
    row, [chance] = scores(1, seed=9), sampling.chances(1)
    shares = sampling.distribution(row)[0]
    counts = torch.bincount(torch.tensor([drawn(shares, chance) for _ in range(20_000)]), minlength=VOCAB)
    assert int(counts[shares == 0].sum()) == 0
    assert fits(counts, shares) > LEVEL
    chosen = [sampling.choose(row, [chance])[0] for _ in range(2_000)]
    assert fits(torch.bincount(torch.tensor(chosen), minlength=VOCAB), shares) > LEVEL


def test_the_test_of_draws_sees_one_part_in_fifty() -> None:
    shares = torch.tensor([0.25, 0.25, 0.25, 0.25], dtype=torch.float64)
    skewed = torch.tensor([0.27, 0.23, 0.25, 0.25], dtype=torch.float64)
    chance = random.Random(3)
    counts = torch.bincount(torch.tensor([drawn(skewed, chance) for _ in range(20_000)]), minlength=4)
    assert fits(counts, shares) < LEVEL < fits(counts, skewed)


@pytest.mark.parametrize("at", [0.0, 0.25, 0.5, 1 - 2**-53])
def test_no_draw_takes_what_has_no_share(at: float) -> None:
    class Fixed(random.Random):
        def random(self) -> float:
            return at

    shares = torch.tensor([0.0, 0.25, 0.0, 0.25, 0.5, 0.0], dtype=torch.float64)
    assert drawn(shares, Fixed()) == {0.0: 1, 0.25: 3, 0.5: 4, 1 - 2**-53: 4}[at]
    assert drawn(0.1 * shares, Fixed()) in (1, 3, 4)


@pytest.mark.mechanism("G1")
def test_texts_of_a_model_come_as_often_as_their_probability_says() -> None:
    model = made("gpt2", "causal_lm")
    sampling = Sampling(temperature=1.5, top_k=4, seed=1)
    prompts = 400 * [[7, 9]]
    rows = generate(model, prompts, max_new_tokens=2, sampling=sampling)
    first = sampling.distribution(model(torch.tensor([[7, 9]])).logits[:, -1].detach())[0]
    exact = {}
    for a in first.nonzero()[:, 0].tolist():
        second = sampling.distribution(model(torch.tensor([[7, 9, a]])).logits[:, -1].detach())[0]
        exact |= {(a, b): float(first[a] * second[b]) for b in second.nonzero()[:, 0].tolist()}
    assert sum(exact.values()) == pytest.approx(1)
    counts = torch.tensor([sum(tuple(row.ids) == pair for row in rows) for pair in exact])
    assert int(counts.sum()) == len(rows)
    assert fits(counts, torch.tensor(list(exact.values()))) > LEVEL


@pytest.mark.case("V080")
@pytest.mark.parametrize("temperature", [0.0, 1e-9])
def test_no_temperature_is_the_likeliest_token_the_lowest_on_ties(temperature: float) -> None:
    tied = torch.tensor([[1.0, 5.0, 5.0, 2.0]], dtype=torch.float16)
    assert Sampling(temperature=temperature).choose(tied, []) == [1]


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": -1.0}, {"top_p": 0.0}, {"top_p": 1.2}, {"top_k": 0}, {"min_p": -0.1}, {"repetition_penalty": 0.0},
     {"temperature": math.nan}, {"no_repeat_ngram_size": -1}, {"top_p": 0.9}, {"temperature": 1e-9, "top_k": 3}],
    ids=str,
)  # fmt: skip
def test_what_makes_no_choice_is_refused(wrong: dict) -> None:
    with pytest.raises(UsageError, match=list(wrong)[-1]):
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
    seeds = [30, 4, 7]
    own = generate(model, prompts, max_new_tokens=9, temperature=1.0, seed=seeds)
    for prompt, seed, row in zip(prompts, seeds, own, strict=True):
        assert generate(model, [prompt], max_new_tokens=9, temperature=1.0, seed=seed)[0].ids == row.ids
    with pytest.raises(UsageError, match="3 seeds for 1 texts"):
        generate(model, prompts[:1], temperature=1.0, seed=seeds)
    for row in together:
        assert row.stopped == (row.ids[-1] in (6, 17))
        assert not {6, 17} & set(row.ids[:-1])


def test_no_run_of_two_tokens_comes_twice() -> None:
    model = made("gpt2", "causal_lm")
    [row] = generate(model, [[7, 9, 7]], max_new_tokens=40, sampling=Sampling(no_repeat_ngram_size=2))
    text = [7, 9, 7, *row.ids]
    pairs = list(itertools.pairwise(text))
    assert len(pairs) == len(set(pairs))
