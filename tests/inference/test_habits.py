"""What a checkpoint's generation_config.json asks for is done, unless a caller says otherwise, or else it is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import variorum
from tests.parity import oracle
from tests.parity.case import materialise
from tests.parity.tiny import named
from tests.tiny_specs import made, words
from variorum.inference.generate import generate
from variorum.inference.habits import asked, forced, unmet
from variorum.inference.sampling import Sampling
from variorum.inference.strategy import Beams, Strategy
from variorum.model import Model

#: As facebook/bart-large-cnn publishes it, with lengths and ids for a tiny model.
BART = {
    "bos_token_id": 0, "decoder_start_token_id": 2, "early_stopping": True, "eos_token_id": 2,
    "forced_bos_token_id": 0, "forced_eos_token_id": 2, "length_penalty": 2.0, "max_length": 12, "min_length": 6,
    "no_repeat_ngram_size": 3, "num_beams": 4, "pad_token_id": 1,
}  # fmt: skip
#: As meta-llama/Llama-3.2-1B-Instruct publishes it.
LLAMA = {"bos_token_id": 1, "do_sample": True, "eos_token_id": [2, 3], "temperature": 0.6, "top_p": 0.9}


def told(said: dict[str, Any], name: str = "gpt2") -> Model:
    """A tiny model whose file says so."""
    model = made(name, "seq2seq_lm" if name in ("t5", "bart") else "causal_lm")

    class Origin:
        generation, config = said, {}

    model.origin = Origin()  # type: ignore[assignment]
    return model


def strategy(said: dict[str, Any], **choice: Any) -> Strategy:
    return asked(told(said), [[7, 8, 9], [7]], choice)


@pytest.mark.mechanism("G1", "G3")
def test_bart_searches_as_its_file_says_and_as_the_published_class_does(tmp_path: Path) -> None:
    root = materialise(named("bart/seq2seq_lm"), tmp_path)
    (root / "generation_config.json").write_text(json.dumps(BART))
    theirs, ours = oracle.load64(root, named("bart/seq2seq_lm").oracle), variorum.load(root, dtype="float64")
    prompts = words(4, 9).tolist()
    with torch.no_grad(), oracle.exact(watch=False):
        right = theirs.generate(torch.tensor(prompts))[:, 1:].tolist()
    found = ours.generate(prompts)
    assert [row + [1] * (len(right[0]) - len(row)) for row in found] == right
    assert all(row[0] == 0 and row[-1] == 2 and 5 < len(row) <= 11 for row in found)
    plain = ours.generate(prompts, num_beams=1, no_repeat_ngram_size=0, max_new_tokens=11, min_new_tokens=0)
    greedy = generate(ours, prompts, max_new_tokens=11, end_ids=[2], fixed=forced(ours))
    assert plain == [row.ids for row in greedy] != found
    assert unmet(ours) == []


def test_an_answer_is_drawn_where_the_file_draws_and_likeliest_where_the_caller_wants_it() -> None:
    assert strategy(LLAMA).sampling == Sampling(temperature=0.6, top_p=0.9, top_k=50)
    assert strategy(LLAMA).end_ids == (2, 3)
    for choice in ({"temperature": 0.0}, {"do_sample": False}, {"num_beams": 3}):
        assert not strategy(LLAMA, **choice).sampling.draws
        assert strategy(LLAMA, **choice).sampling.cuts == {}
    assert strategy(LLAMA, top_p=0.5, seed=3).sampling == Sampling(temperature=0.6, top_p=0.5, top_k=50, seed=3)
    assert strategy({"do_sample": True, "top_k": 0, "top_p": 1.0}).sampling == Sampling(temperature=1.0)
    assert strategy({"temperature": 0.6, "top_p": 0.9}).sampling == Sampling()
    assert strategy({"temperature": 0.6, "top_p": 0.9}, do_sample=True).sampling == Sampling(temperature=0.6, top_p=0.9)
    assert strategy({}, top_k=5).sampling == Sampling(temperature=1.0, top_k=5)
    assert strategy({}, temperature=0.4).sampling == Sampling(temperature=0.4)


def test_beams_of_the_file_are_left_where_a_text_is_drawn() -> None:
    assert strategy(BART).beams == Beams(num_beams=4, length_penalty=2.0, early_stopping=True)
    assert strategy(BART, num_beams=2).beams == Beams(num_beams=2, length_penalty=2.0, early_stopping=True)
    assert strategy(BART, temperature=0.5).beams == Beams()
    assert strategy(BART, temperature=0.5).sampling == Sampling(temperature=0.5, no_repeat_ngram_size=3)


def test_lengths_count_what_was_read_and_give_way_to_new_tokens() -> None:
    decoder = strategy({"max_length": 12, "min_length": 6})
    assert (decoder.max_new_tokens, decoder.min_new_tokens) == (9, 3)
    encoder = asked(told(BART, "bart"), [[7] * 9], {})
    assert (encoder.max_new_tokens, encoder.min_new_tokens) == (11, 5)
    assert strategy({"max_length": 12, "max_new_tokens": 40}).max_new_tokens == 40
    assert strategy({"max_length": 12}, max_new_tokens=3).max_new_tokens == 3
    assert strategy({}).max_new_tokens == 20
    assert strategy({"max_length": 4096}).max_new_tokens == 78  # 80 positions; the last token is never read
    assert strategy({}, max_new_tokens=500).max_new_tokens == 500  # which generation refuses


def test_words_that_may_not_be_written_are_not_unless_they_are_the_end() -> None:
    found = strategy({"bad_words_ids": [[5], [2], [7, 8]], "eos_token_id": 2, "suppress_tokens": [9]}).sampling
    assert (found.bad_words_ids, found.suppress_tokens) == (((5,), (7, 8)), (9,))


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"guidance_scale": 1.5, "epsilon_cutoff": 3e-4}, ["guidance_scale", "epsilon_cutoff"]),
        ({"guidance_scale": 1.0, "num_beam_groups": 1, "penalty_alpha": None, "use_cache": True}, []),
        ({"do_sample": True, "num_beams": 3}, ["num_beams"]),
        ({"forced_decoder_ids": [[1, 5]]}, ["forced_decoder_ids"]),
        ({"forced_decoder_ids": [[1, None]], "no_timestamps_token_id": 40}, []),
    ],
    ids=str,
)
def test_what_is_not_done_is_said(said: dict[str, Any], names: list[str]) -> None:
    found = unmet(told(said))
    assert len(found) == len(names)
    for line, name in zip(found, names, strict=True):
        assert line == f"generation_config.json asks for {name}={said[name]}, which is not done here"


def test_python_is_warned_of_what_is_not_done(tmp_path: Path) -> None:
    root = materialise(named("gpt2/causal_lm"), tmp_path)
    (root / "generation_config.json").write_text(json.dumps({"guidance_scale": 2.0}))
    with pytest.warns(UserWarning, match=r"asks for guidance_scale=2.0, which is not done here"):
        variorum.load(root).generate([[7, 8]], max_new_tokens=2)
