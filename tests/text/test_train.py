"""Vocabularies trained here: deterministic, honest about their method, and readable by others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import transformers

from tests.text.strings import corpus
from variorum.errors import UsageError
from variorum.text import load_tokenizer, train_byte_level_bpe, train_wordpiece_by_frequency

LINES = corpus(1500)


@pytest.mark.mechanism("T2", "T3")
def test_byte_level_bpe_loses_nothing_and_has_the_size_asked_for(strings: list[str]) -> None:
    tokenizer = train_byte_level_bpe(LINES, 512, ["<|endoftext|>"])
    assert tokenizer.vocab_size == 512
    assert tokenizer.kind == "byte_level_bpe"
    assert tokenizer.token_to_id("<|endoftext|>") == tokenizer.eos_id == 0
    sample = strings[:2000]
    assert [tokenizer.decode(made.ids) for made in tokenizer.encode_batch(sample)] == sample
    assert train_byte_level_bpe(LINES, 300).special == {}


@pytest.mark.mechanism("T2")
def test_a_merge_joins_the_most_frequent_pair() -> None:
    tokenizer = train_byte_level_bpe(["abab abab abab xy"], 258)
    assert [tokenizer.id_to_token(id) for id in (256, 257)] == ["ab", "abab"]


@pytest.mark.mechanism("T1", "T6")
def test_wordpiece_marks_continuations_and_takes_the_longest_piece_first() -> None:
    tokenizer = train_wordpiece_by_frequency(["truth truths truthful"] * 20 + ["hug pug pun bun hugs"], 200)
    made = tokenizer.encode("Truths hugs", specials=False)
    assert made.tokens[0].startswith("truth")
    assert made.offsets[0][0] == 0
    assert made.offsets[-1][1] == 11
    assert tokenizer.encode("a").tokens[0] == "[CLS]"
    cased = train_wordpiece_by_frequency(["Truth Öl"] * 20, 100, lower=False)
    assert cased.encode("Truth Öl", specials=False).tokens == ["Truth", "Öl"]


def test_too_small_a_size_is_refused() -> None:
    with pytest.raises(UsageError, match="vocab_size 256 is less than 256 bytes and 1 specials"):
        train_byte_level_bpe(LINES, 256, ["<pad>"])
    with pytest.raises(UsageError, match="vocab_size 100 is less than 5 specials and"):
        train_wordpiece_by_frequency(LINES, 100)
    with pytest.raises(UsageError, match="text 1: lone surrogate at position 1"):
        train_byte_level_bpe(["fine", "a\ud800"], 300)


_PROGRAM = """
import hashlib, sys
from tests.text.strings import corpus
from variorum.text import train_byte_level_bpe
from variorum.text.families import FAMILIES
from variorum.text.train import train
made = [train_byte_level_bpe(corpus(1500), 700, ["<s>"])]
for name in ("bert", "roberta", "gpt", "t5", "albert", "llama"):
    made += [train(corpus(1500), 700, family=name, method=method) for method in FAMILIES[name].methods]
print([hashlib.sha256(b"".join(one.files[name] for name in sorted(one.files))).hexdigest() for one in made])
"""


def test_training_is_the_same_in_every_process() -> None:
    root = str(Path(__file__).parents[2])
    said = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{root}:{root}/src", "RAYON_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, threads in (("1", "1"), ("2", "2"))
    }
    assert len(said) == 1


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_a_saved_vocabulary_reads_the_same_here_and_elsewhere(tmp_path: Path, strings: list[str], kind: str) -> None:
    trained = (
        train_byte_level_bpe(LINES, 600, ["<|endoftext|>"])
        if kind == "bpe"
        else train_wordpiece_by_frequency(LINES, 600, strip_accents=False)
    )
    trained.save(tmp_path)
    sample = strings[:3000]
    ids = [made.ids for made in trained.encode_batch(sample)]
    loaded = load_tokenizer(tmp_path)
    assert [made.ids for made in loaded.encode_batch(sample)] == ids
    assert loaded.special == trained.special
    assert loaded.kind == trained.kind
    other = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert other(sample, split_special_tokens=True)["input_ids"] == ids
