"""``tokenizer.json`` of every kind that is published, and of kinds that only an attacker publishes."""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from tests.text.conftest import BERT_SPECIALS, write_json
from tests.text.reference import by_transformers, differing, fast, wrong_decodings
from tests.text.strings import corpus
from variorum.errors import DamagedFile, VariorumError
from variorum.text import load_tokenizer

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)


def _unigram() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    made.decoder = decoders.Metaspace(prepend_scheme="always")
    specials = ["<pad>", "</s>", "<unk>", "<extra_id_0>"]
    trainer = trainers.UnigramTrainer(vocab_size=900, special_tokens=specials, unk_token="<unk>", show_progress=False)
    made.train_from_iterator(corpus(2000), trainer)
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return made


def _llama2() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    specials = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    made.train_from_iterator(corpus(2000), trainers.BpeTrainer(
        vocab_size=1100, special_tokens=specials, show_progress=False, max_token_length=12))  # fmt: skip
    document = json.loads(made.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    made = tokenizers.Tokenizer.from_str(json.dumps(document))
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    return made


def _llama3() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
    split = pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    made.train_from_iterator(corpus(2000), trainer)
    made.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    bos = made.token_to_id("<|begin_of_text|>")
    template = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
        special_tokens=[("<|begin_of_text|>", bos)],
    )  # fmt: skip
    made.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return made


DOCUMENTS: dict[str, Callable[[], tokenizers.Tokenizer]] = {"unigram": _unigram, "llama2": _llama2, "llama3": _llama3}


@pytest.mark.mechanism("T2", "T3", "T4")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_ids_offsets_and_decoding_equal_the_reference(strings: list[str], tmp_path: Path, name: str) -> None:
    DOCUMENTS[name]().save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    other = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    ours = tokenizer.encode_batch(strings, allow_special_text=True)
    assert differing(strings, ours, by_transformers(other, strings, specials_in_text=True)) == []
    assert wrong_decodings(tokenizer, other, ours, skip=True) == []
    plain, theirs = tokenizer.encode_batch(strings), by_transformers(other, strings)
    forbidden = tokenizer.special_ids - {tokenizer.unk_id}
    spelt = [not forbidden.isdisjoint(other.encode(text, add_special_tokens=False)) for text in strings]
    kept = [place for place, odd in enumerate(spelt) if not odd]
    assert len(kept) > 18_000
    assert differing(*([values[place] for place in kept] for values in (strings, plain, theirs))) == []
    for encoding in tokenizer.encode_batch(strings, specials=False):
        assert forbidden.isdisjoint(encoding.ids), "the library reads </s> from text even when told not to"


@pytest.mark.mechanism("T1", "T3")
@pytest.mark.parametrize("family", ["uncased", "cased", "gpt2", "roberta"])
def test_a_directory_that_transformers_saved_reads_like_its_sources(
    trained: Callable[[str], Path], strings: list[str], tmp_path: Path, family: str
) -> None:
    other = fast(trained(family))
    other.save_pretrained(tmp_path)
    assert (tmp_path / "tokenizer.json").exists()
    ours = load_tokenizer(tmp_path).encode_batch(strings[:5000])
    assert differing(strings[:5000], ours, by_transformers(other, strings[:5000])) == []


@pytest.mark.case("V037")
@pytest.mark.mechanism("T7")
@pytest.mark.parametrize("flag", [None, True, False])
@pytest.mark.parametrize("template", [True, False])
def test_the_file_and_not_the_settings_puts_the_begin_token_and_once(
    tmp_path: Path, flag: bool | None, template: bool
) -> None:
    made = _llama3()
    document = json.loads(made.to_str())
    if not template:
        document["post_processor"] = None
    write_json(tmp_path / "tokenizer.json", document)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin_of_text|>"}
    write_json(tmp_path / "tokenizer_config.json", config if flag is None else config | {"add_bos_token": flag})
    ids = load_tokenizer(tmp_path).encode("test").ids
    assert ids == fast(tmp_path)("test")["input_ids"]
    assert ids.count(made.token_to_id("<|begin_of_text|>")) == int(template)


@pytest.mark.case("V037")
@pytest.mark.parametrize("flag", [None, True, False])
def test_without_a_tokenizer_json_the_settings_put_the_begin_token(
    trained: Callable[[str], Path], tmp_path: Path, flag: bool | None
) -> None:
    for file in trained("gpt2").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = {"tokenizer_class": "GPT2Tokenizer"}
    write_json(tmp_path / "tokenizer_config.json", config if flag is None else config | {"add_bos_token": flag})
    tokenizer = load_tokenizer(tmp_path)
    ids = tokenizer.encode("test").ids
    assert ids == fast(tmp_path)("test")["input_ids"]
    assert ids.count(tokenizer.bos_id or 0) == int(flag is True)


def test_added_tokens_of_the_side_files_get_the_ids_they_declare(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    for file in trained("gpt2").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    size = load_tokenizer(tmp_path).vocab_size
    token = {"content": "<pad>", "special": True, "lstrip": False, "rstrip": False, "normalized": False}
    config = {"tokenizer_class": "GPT2Tokenizer", "pad_token": "<pad>", "added_tokens_decoder": {str(size): token}}
    write_json(tmp_path / "tokenizer_config.json", config)
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.pad_id, tokenizer.vocab_size) == (size, size + 1)
    config["added_tokens_decoder"] = {str(size + 5): token}
    write_json(tmp_path / "tokenizer_config.json", config)
    with pytest.raises(DamagedFile, match=f"'<pad>' has id {size + 5} in one file, {size} in another"):
        load_tokenizer(tmp_path)


# --- files that nobody should have published ---


def _bert() -> dict[str, Any]:
    vocab = {token: id for id, token in enumerate([*BERT_SPECIALS, "a", "b", "##a", "##b", "ab"])}
    made = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(BERT_SPECIALS)
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return dict(json.loads(made.to_str()))


def _bpe() -> dict[str, Any]:
    vocab = {"a": 0, "b": 1, "ab": 2, "aba": 3, " ": 4}
    made = tokenizers.Tokenizer(models.BPE(vocab, [("a", "b"), ("ab", "a")]))
    return dict(json.loads(made.to_str()))


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


HOSTILE: dict[str, tuple[Callable[[], dict[str, Any]], tuple[Any, ...], Any]] = {
    "no model": (_bert, ("model",), None),
    "unknown model": (_bert, ("model", "type"), "Pickle"),
    "vocab is a list": (_bert, ("model", "vocab"), ["a"]),
    "empty vocab": (_bert, ("model", "vocab"), {}),
    "negative id": (_bert, ("model", "vocab", "a"), -1),
    "huge id": (_bert, ("model", "vocab", "a"), 2**62),
    "memory bomb id": (_bert, ("model", "vocab", "a"), 2**31),
    "float id": (_bert, ("model", "vocab", "a"), 1.5),
    "bool id": (_bert, ("model", "vocab", "a"), True),
    "shared id": (_bert, ("model", "vocab", "a"), 6),
    "unknown token missing": (_bert, ("model", "unk_token"), "[NONE]"),
    "unknown token null": (_bert, ("model", "unk_token"), None),
    "word limit is text": (_bert, ("model", "max_input_chars_per_word"), "many"),
    "merges of unknown parts": (_bpe, ("model", "merges"), [["z", "q"]]),
    "merge into nothing": (_bpe, ("model", "merges"), [["b", "a"]]),
    "merge of three": (_bpe, ("model", "merges"), [["a", "b", "a"]]),
    "merge of numbers": (_bpe, ("model", "merges"), [[1, 2]]),
    "merge shorter than its prefix": (_bpe, ("model", "continuing_subword_prefix"), "##########"),
    "merges null": (_bpe, ("model", "merges"), None),
    "normalizer of unknown type": (_bert, ("normalizer",), {"type": "Exec", "command": "rm"}),
    "normalizer is text": (_bert, ("normalizer",), "lower"),
    "broken charsmap": (_bert, ("normalizer",), {"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
    "charsmap too long": (_bert, ("normalizer",), {"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
    "pattern does not compile": (_bert, ("pre_tokenizer",), _split("(((")),
    "pattern without an end": (_bert, ("pre_tokenizer",), _split("(a+)+$")),
    "pattern over any letter": (_bert, ("pre_tokenizer",), _split(r"(\w+\s?)+$")),
    "post-processor beyond the vocabulary": (_bert, ("post_processor", "cls"), ["[CLS]", 999]),
    "post-processor without ids": (_bert, ("post_processor", "cls"), None),
    "template without texts": (
        _bert,
        ("post_processor",),
        {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}},
    ),
    "added tokens are text": (_bert, ("added_tokens",), "x"),
    "added token without id": (_bert, ("added_tokens", 0), {"content": "[PAD]"}),
    "added token at a huge id": (_bert, ("added_tokens", 0, "id"), 2**60),
    "added token of another id": (_bert, ("added_tokens", 4, "id"), 700),
    "decoder of unknown type": (_bert, ("decoder",), {"type": "Eval"}),
    "lone surrogate": (_bert, ("added_tokens", 0, "content"), "\ud800"),
    "version of the future": (_bert, ("version",), "9.0"),
    "padding is text": (_bert, ("padding",), "yes"),
}


def _refused(directory: Path, capfd: pytest.CaptureFixture[str]) -> str:
    """The one line that loading and a first use give, with nothing printed beside it, within two seconds."""
    started = time.perf_counter()
    with pytest.raises(VariorumError) as caught:
        load_tokenizer(directory).encode("ab ba [MASK] é 123")
    assert time.perf_counter() - started < 4.5  # 2 s of processor time for a pattern, plus a slow machine's start
    assert capfd.readouterr() == ("", "")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 7
    return str(caught.value)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tokenizer_json_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str) -> None:
    make, path, value = HOSTILE[name]
    document = make()
    spot: Any = document
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    assert "tokenizer.json" in _refused(tmp_path, capfd)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        b'{"model": ' * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"model": {"type": "WordPiece", "vocab": {"a": ' + b"9" * 5000 + b"}}}",
        b'{"model": {"vocab": {"a": 0, "a": 1}}}',
        b'{"model": NaN}',
        b"\xff\xfe{}",
        b"{} trailing",
    ],
    ids=range(10),
)
def test_what_is_no_tokenizer_json_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes
) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    assert "tokenizer.json" in _refused(tmp_path, capfd)


def test_an_unknown_but_harmless_pattern_is_accepted(tmp_path: Path) -> None:
    document = _bert()
    document["pre_tokenizer"] = _split("[0-9]|[a-z]+")
    write_json(tmp_path / "tokenizer.json", document)
    assert load_tokenizer(tmp_path).encode("ab9", specials=False).tokens == ["ab", "[UNK]"]


def test_a_pattern_that_gives_up_on_one_text_gives_one_line_for_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document = _bert()
    # Harmless on every text that the probe tries: it needs a q before a long run of w.
    document["pre_tokenizer"] = _split("q(w|ww)+$")
    write_json(tmp_path / "tokenizer.json", document)
    tokenizer = load_tokenizer(tmp_path)
    with pytest.raises(DamagedFile, match="fails on this text"):
        tokenizer.encode("q" + "w" * 100 + "!")
    assert capfd.readouterr() == ("", "")
    assert tokenizer.encode("ab").tokens == ["[CLS]", "ab", "[SEP]"]


def _line(directory: Path) -> str | None:
    """What loading and a first use say, if they refuse the file."""
    try:
        load_tokenizer(directory).encode("ab universally é\U0001f9ff")
    except DamagedFile as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("family", "file"),
    [
        ("uncased", "vocab.txt"),
        ("gpt2", "vocab.json"),
        ("gpt2", "merges.txt"),
        ("t5", "spiece.model"),
        ("llama", "tokenizer.model"),
        ("gpt2", "tokenizer_config.json"),
        ("json", "tokenizer.json"),
    ],
)
def test_flipped_bits_and_cut_files_never_crash(
    trained: Callable[[str], Path], tmp_path: Path, capfd: pytest.CaptureFixture[str], family: str, file: str
) -> None:
    if family == "json":
        write_json(tmp_path / "tokenizer.json", _bert())
    else:
        for source in trained(family).iterdir():
            (tmp_path / source.name).write_bytes(source.read_bytes())
    sound = (tmp_path / file).read_bytes()
    rng = random.Random(file)
    refused = 0
    for _ in range(60):
        damaged = bytearray(sound)
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        for _ in range(rng.choice([1, 1, 4])):
            if damaged:
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        (tmp_path / file).write_bytes(damaged)
        line = _line(tmp_path)
        if line is not None:
            refused += 1
            assert "\n" not in line
    assert capfd.readouterr() == ("", "")
    assert refused > 0


def test_two_loads_do_not_share_state(tmp_path: Path) -> None:
    write_json(tmp_path / "tokenizer.json", _bert())
    first, second = load_tokenizer(tmp_path), copy.deepcopy(load_tokenizer(tmp_path))
    assert 4 in first.encode("[MASK]", allow_special_text=True).ids
    assert 4 not in first.encode("[MASK]").ids
    assert 4 not in second.encode("[MASK]").ids
