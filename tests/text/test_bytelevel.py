"""Byte-level BPE of GPT-2 and RoBERTa, and ByT5's plain bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import transformers

from tests.text.reference import by_transformers, differing, fast, wrong_decodings
from variorum.errors import DamagedFile
from variorum.text import byte_tokenizer, load_tokenizer


@pytest.mark.mechanism("T2", "T3")
@pytest.mark.parametrize("family", ["gpt2", "roberta", "bart", "qwen2", "neox", "whisper", "gpt1"])
def test_ids_offsets_and_decoding_equal_the_reference(
    trained: Callable[[str], Path], strings: list[str], family: str
) -> None:
    tokenizer, other = load_tokenizer(trained(family)), fast(trained(family))
    assert tokenizer.vocab_size == len(other)
    ours = tokenizer.encode_batch(strings)
    assert differing(strings, ours, by_transformers(other, strings)) == []
    for skip in (True, False):
        assert wrong_decodings(tokenizer, other, ours, skip=skip) == []


@pytest.mark.mechanism("T3")
def test_bytes_lose_nothing(trained: Callable[[str], Path], strings: list[str]) -> None:
    tokenizer = load_tokenizer(trained("gpt2"))
    assert [tokenizer.decode(encoding.ids) for encoding in tokenizer.encode_batch(strings)] == strings


@pytest.mark.mechanism("T3")
def test_a_leading_space_makes_another_token(trained: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(trained("gpt2"))
    assert tokenizer.encode("truth").ids != tokenizer.encode(" truth").ids
    assert tokenizer.encode(" truth").tokens == ["Ġtruth"]


@pytest.mark.mechanism("T3", "T7")
def test_roberta_wraps_pairs_with_two_separators_and_one_segment(
    trained: Callable[[str], Path], strings: list[str]
) -> None:
    tokenizer, other = load_tokenizer(trained("roberta")), fast(trained("roberta"))
    first, second = strings[:2000], strings[2000:4000]
    made = other(first, second, split_special_tokens=True)
    ours = tokenizer.encode_batch(zip(first, second, strict=True))
    assert [encoding.ids for encoding in ours] == made["input_ids"]
    one = tokenizer.encode("a", "b")
    assert one.tokens == ["<s>", "a", "</s>", "</s>", "b", "</s>"]
    assert set(one.type_ids) == {0}
    assert one.special_mask == [1, 0, 1, 1, 0, 1]
    assert one.sequence_ids == [None, 0, None, None, 1, None]


@pytest.mark.mechanism("T3", "T7")
def test_deberta_puts_bert_s_wrapper_around_gpt2_s_pieces(trained: Callable[[str], Path], strings: list[str]) -> None:
    tokenizer, other = load_tokenizer(trained("deberta")), fast(trained("deberta"))
    ours = tokenizer.encode_batch(strings[:3000])
    assert differing(strings[:3000], ours, by_transformers(other, strings[:3000])) == []
    pair = tokenizer.encode("a", "b")
    # One separator between the texts, as released (microsoft/DeBERTa); the reference puts two since its version 5.
    assert pair.tokens == ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 1, 1]


def test_a_merge_of_unknown_parts_is_named_with_its_file(trained: Callable[[str], Path], tmp_path: Path) -> None:
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes((trained("gpt2") / name).read_bytes())
    with (tmp_path / "merges.txt").open("a") as merges:
        merges.write("zz qqq\n")
    with pytest.raises(DamagedFile, match=r"merges\.txt: 'zz' of a merge is not in vocab\.json"):
        load_tokenizer(tmp_path)


@pytest.mark.mechanism("T5")
def test_byt5_is_byte_plus_three(strings: list[str], tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "ByT5Tokenizer"}))
    tokenizer, other = load_tokenizer(tmp_path), transformers.ByT5Tokenizer()
    assert tokenizer.encode("aé").ids == [97 + 3, 0xC3 + 3, 0xA9 + 3, 1]
    assert tokenizer.encode("aé").offsets == [(0, 1), (1, 2), (1, 2), (0, 0)]
    ours = tokenizer.encode_batch(strings)
    assert [encoding.ids for encoding in ours] == other(strings, split_special_tokens=True)["input_ids"]
    assert [tokenizer.decode(encoding.ids) for encoding in ours] == strings
    for text, made in zip(strings, ours, strict=True):
        lengths = [len(char.encode("utf-8")) for char in text]
        spans = [(place, place + 1) for place, length in enumerate(lengths) for _ in range(length)]
        assert made.offsets == [*spans, (0, 0)]
    assert tokenizer.vocab_size == len(other) == 384
    assert byte_tokenizer().encode("<extra_id_3>", allow_special_text=True).ids == other("<extra_id_3>")["input_ids"]


@pytest.mark.mechanism("T5", "T7")
def test_byt5_has_as_many_sentinels_as_its_settings_say(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "ByT5Tokenizer", "extra_ids": 3, "eos_token": "</s>"})
    )
    tokenizer, other = load_tokenizer(tmp_path), transformers.ByT5Tokenizer(extra_ids=3)
    assert tokenizer.vocab_size == len(other) == 262
    text = "a<extra_id_2>b<extra_id_3>"
    assert tokenizer.encode(text, allow_special_text=True).ids == other(text)["input_ids"]


@pytest.mark.mechanism("T3", "T7")
def test_whisper_s_prompt_names_language_and_task_and_no_time_is_text(trained: Callable[[str], Path]) -> None:
    tokenizer, other = load_tokenizer(trained("whisper")), fast(trained("whisper"))
    assert tokenizer.encode("truth").tokens == ["<|startoftranscript|>", "<|notimestamps|>", "truth", "<|endoftext|>"]
    german = tokenizer.choose(language="de", task="transcribe")
    other.set_prefix_tokens(language="de", task="transcribe")
    assert german.encode("truth").ids == other("truth")["input_ids"]
    assert german.encode("truth").tokens[1:4] == ["<|de|>", "<|transcribe|>", "<|notimestamps|>"]
    assert list(tokenizer.choices["language"]) == ["en", "zh", "de", "es"]
    timed = tokenizer.encode("<|0.00|>truth<|0.04|>", allow_special_text=True)
    assert timed.tokens[2:5] == ["<|0.00|>", "truth", "<|0.04|>"]
    assert tokenizer.decode(timed.ids) == "truth" == other.decode(timed.ids, skip_special_tokens=True)
    assert "<|0.04|>" in tokenizer.decode(timed.ids, skip_special=False)


@pytest.mark.mechanism("T3", "T7")
@pytest.mark.parametrize("family", ["whisper", "bart", "gpt1", "qwen2"])
def test_the_settings_of_a_directory_name_its_prompt_and_prefix(
    trained: Callable[[str], Path], strings: list[str], tmp_path: Path, family: str
) -> None:
    for file in trained(family).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    more = {"language": "de", "task": "translate", "predict_timestamps": True} if family == "whisper" else {}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | more | {"add_prefix_space": True}))
    tokenizer, other = load_tokenizer(tmp_path), fast(tmp_path)
    texts = strings[:2000]
    assert differing(texts, tokenizer.encode_batch(texts), by_transformers(other, texts)) == []


@pytest.mark.mechanism("T2")
def test_gpt1_lower_cases_and_ends_words(trained: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(trained("gpt1"))
    made = tokenizer.encode("The TRUTH, universally")
    assert made.tokens[:3] == ["the</w>", "truth</w>", ",</w>"]
    assert made.offsets[1] == (4, 9)
    assert tokenizer.decode(made.ids) == "the truth , universally"
    assert tokenizer.kind == "bpe"
