"""Greedy writing is the oracle's, token for token, from a directory of ours with a vocabulary trained here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers

import variorum
from tests.cli import models
from tests.tools.command import here as run
from variorum.inference.generate import generate
from variorum.inference.texts import write

PROMPTS = ["The Law will", "its application", "Emma"]
MADE = {"gpt2": models.gpt2, "llama": models.llama, "t5": models.t5}
ORACLES = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "t5": "T5ForConditionalGeneration"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    place = tmp_path_factory.mktemp("generate")

    def get(name: str) -> Path:
        return place / name if (place / name).exists() else MADE[name](place / name)

    return get


@pytest.mark.parametrize("name", MADE)
def test_what_the_command_writes_is_what_the_oracle_writes(made: Callable[[str], Path], name: str) -> None:
    done = run("generate", str(made(name)), PROMPTS[0], "--max-new-tokens", "12", "--format", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    oracle = getattr(transformers, ORACLES[name]).from_pretrained(made(name)).eval()
    tokenizer = variorum.load(made(name)).tokenizer
    ids = torch.tensor([tokenizer.encode(PROMPTS[0]).ids])
    end = oracle.config.eos_token_id
    end = end if end is not None else tokenizer.eos_id
    settings = {"do_sample": False, "use_cache": False, "eos_token_id": end, "pad_token_id": 0}
    theirs = oracle.generate(ids, max_new_tokens=12, **settings)[0].tolist()
    theirs = theirs[1:] if name == "t5" else theirs[ids.shape[1] :]
    assert said["ids"] == theirs
    assert said["prompt"] == PROMPTS[0]
    assert len(said["log_probabilities"]) == len(said["tokens"]) == len(theirs)
    assert all(value <= 0 for value in said["log_probabilities"])


@pytest.mark.mechanism("G2")
@pytest.mark.parametrize("name", MADE)
def test_the_cache_and_the_company_of_other_prompts_change_nothing(made: Callable[[str], Path], name: str) -> None:
    model = variorum.load(made(name))
    together = write(model, PROMPTS, max_new_tokens=10)
    ids = [model.tokenizer.encode(prompt).ids for prompt in PROMPTS]
    for prompt, row, one in zip(PROMPTS, ids, together, strict=True):
        assert write(model, [prompt], max_new_tokens=10)[0].ids == one.ids
        slow = generate(model, [row], max_new_tokens=10, use_cache=False, end_ids=[])[0]
        assert slow.ids[: len(one.ids)] == one.ids
        assert slow.log_probabilities[: len(one.ids)] == pytest.approx(one.log_probabilities, abs=1e-4)


def test_people_read_the_prompt_and_what_follows(made: Callable[[str], Path]) -> None:
    words = ("generate", str(made("gpt2")), PROMPTS[0], "--max-new-tokens", "6")
    text = json.loads(run(*words, "--format", "json").stdout)["text"]
    assert run(*words).stdout.startswith(PROMPTS[0])
    assert variorum.load(made("gpt2")).generate(PROMPTS[0], max_new_tokens=6) == text


def test_an_end_token_ends_its_row_alone(made: Callable[[str], Path]) -> None:
    model = variorum.load(made("llama"))
    ids = [model.tokenizer.encode(prompt).ids for prompt in PROMPTS]
    free = generate(model, ids, max_new_tokens=8)
    end = free[0].ids[2]
    ended = generate(model, ids, max_new_tokens=8, end_ids=[end])
    assert ended[0].ids == free[0].ids[: free[0].ids.index(end) + 1] and ended[0].stopped
    for before, after in zip(free[1:], ended[1:], strict=True):
        stop = before.ids.index(end) + 1 if end in before.ids else 8
        assert after.ids == before.ids[:stop]


def test_a_vocabulary_trained_here_comes_back_from_the_saved_directory(made: Callable[[str], Path]) -> None:
    loaded, trained = variorum.load(made("gpt2")).tokenizer, models.pieces()
    text = "It is a truth universally acknowledged — naïve, ☃."
    assert loaded.encode(text) == trained.encode(text)
    assert loaded.decode(loaded.encode(text).ids) == text


def test_running_out_of_positions_is_said_before_the_first_step(
    made: Callable[[str], Path], refuse: Callable[..., str]
) -> None:
    gpt2 = str(made("gpt2"))
    line = refuse("generate", gpt2, PROMPTS[0], "--max-new-tokens", "200", code=2)
    assert "more than the 48 this model takes" in line
    room = int(line.split("ask for at most ")[1].split()[0])
    assert run("generate", gpt2, PROMPTS[0], "--max-new-tokens", str(room)).returncode == 0
    refuse("generate", gpt2, PROMPTS[0], "--max-new-tokens", str(room + 1), code=2)


def test_what_makes_no_sense_is_refused(made: Callable[[str], Path], refuse: Callable[..., str]) -> None:
    assert "0 new tokens are none" in refuse("generate", str(made("gpt2")), "a", "--max-new-tokens", "0", code=2)
    assert "at least one token" in refuse("generate", str(made("gpt2")), "", code=2)
    assert "longer than the 48" in refuse("generate", str(made("gpt2")), "law " * 80, code=2)


@pytest.mark.mechanism("G1")
def test_chance_repeats_itself_under_a_seed_and_a_text_ends_before_a_stop(
    made: Callable[[str], Path], refuse: Callable[..., str]
) -> None:
    def said(*words: str) -> str:
        done = run("generate", str(made("gpt2")), PROMPTS[0], "--max-new-tokens", "12", "--format", "json", *words)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["text"])

    drawn = ("--temperature", "1.5", "--top-k", "50", "--seed", "3")
    once = said(*drawn)
    assert said(*drawn) == once
    assert once != said()
    assert said(*drawn[:-1], "4") != once
    stop = once[3:6]
    assert said(*drawn, "--stop-strings", stop) == once[: once.index(stop)]
    assert "top_p is 1.5" in refuse("generate", str(made("gpt2")), PROMPTS[0], "--top-p", "1.5", code=2)


def test_a_stream_is_the_text_as_it_comes(made: Callable[[str], Path], refuse: Callable[..., str]) -> None:
    words = ("generate", str(made("gpt2")), PROMPTS[0], "--max-new-tokens", "8")
    assert run(*words, "--stream").stdout.strip() == run(*words).stdout.strip()
    model = variorum.load(made("gpt2"))
    whole = model.generate(PROMPTS[0], max_new_tokens=8)
    pieces = list(model.stream(PROMPTS[0], max_new_tokens=8))
    assert "".join(pieces) == whole and len(pieces) > 2
    stop = whole[4:7]
    assert "".join(model.stream(PROMPTS[0], max_new_tokens=8, stop_strings=[stop])) == whole[: whole.index(stop)]
    assert "only at its end" in refuse(*words, "--stream", "--num-beams", "2", code=2)
    assert "for people to read" in refuse(*words, "--stream", "--format", "json", code=2)


@pytest.mark.mechanism("G1")
def test_a_search_and_guesses_have_their_flags(made: Callable[[str], Path], refuse: Callable[..., str]) -> None:
    words = ("generate", str(made("gpt2")), PROMPTS[0], "--max-new-tokens", "8", "--format", "json")
    model = variorum.load(made("gpt2"))
    plain = json.loads(run(*words).stdout)
    beams = ("--num-beams", "3", "--num-return-sequences", "2", "--length-penalty", "0.5", "--early-stopping", "true")
    found = json.loads(run(*words, *beams).stdout)
    search = {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.5, "early_stopping": True}
    assert [one["text"] for one in found] == model.generate(PROMPTS[0], max_new_tokens=8, **search)
    assert found[0]["score"] >= found[1]["score"]
    for drafts in (("--assistant-model", str(made("gpt2"))), ("--prompt-lookup-num-tokens", "3")):
        helped = json.loads(run(*words, *drafts).stdout)
        assert helped["ids"] == plain["ids"]
        assert helped["guesses"]["steps"] + helped["guesses"]["accepted"] + 1 >= len(helped["ids"])
    assert plain["guesses"] is None
    assert "only one of them continues" in refuse(*words, "--assistant-model", str(made("t5")), code=2)


def test_how_keys_and_values_are_kept_has_its_flags(made: Callable[[str], Path], refuse: Callable[..., str]) -> None:
    words = ("generate", str(made("llama")), PROMPTS[0], "--max-new-tokens", "8", "--format", "json")
    plain = json.loads(run(*words).stdout)
    for flags in (("--cache", "whole"), ("--cache", "paged", "--prompt-chunk", "2")):
        assert json.loads(run(*words, *flags).stdout)["ids"] == plain["ids"]
    narrow = json.loads(run(*words, "--cache-numbers", "int8").stdout)
    assert narrow["log_probabilities"] != plain["log_probabilities"]
    assert abs(narrow["log_probabilities"][0] - plain["log_probabilities"][0]) < 0.05
    assert "window" in refuse(*words, "--cache", "ring", code=2)
    assert "chunk of a cache is at least 1" in refuse(*words, "--prompt-chunk", "0", code=2)


def test_the_checkpoints_own_wishes_are_heeded_or_named(made: Callable[[str], Path], tmp_path: Path) -> None:
    for file in made("gpt2").iterdir():
        if "manifest" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    wishes = {"num_beams": 3, "max_new_tokens": 5, "no_repeat_ngram_size": 2, "guidance_scale": 1.5}
    (tmp_path / "generation_config.json").write_text(json.dumps(wishes), "utf-8")
    done = run("generate", str(tmp_path), PROMPTS[0], "--format", "json")
    found = json.loads(done.stdout)
    assert len(found["ids"]) == 5 and found["score"] is not None
    assert "generation_config.json asks for guidance_scale=1.5, which is not done here" in done.stderr
    plain = json.loads(run("generate", str(tmp_path), PROMPTS[0], "--num-beams", "1", "--format", "json").stdout)
    assert plain["score"] is None
