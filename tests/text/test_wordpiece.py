"""BERT's WordPiece: equal to the reference, with case and accents as two switches."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.text.conftest import BERT_SPECIALS, write_json
from tests.text.reference import by_transformers, differing, fast, wrong_decodings
from variorum.text import load_tokenizer

VARIANTS = ["uncased", "cased", "accents-kept", "accents-stripped-cased"]


@pytest.mark.mechanism("T1", "T6", "T7")
@pytest.mark.parametrize("variant", VARIANTS)
def test_ids_offsets_and_decoding_equal_the_reference(
    trained: Callable[[str], Path], strings: list[str], variant: str
) -> None:
    directory = trained(variant)
    tokenizer, other = load_tokenizer(directory), fast(directory)
    ours = tokenizer.encode_batch(strings)
    assert differing(strings, ours, by_transformers(other, strings)) == []
    for skip in (True, False):
        assert wrong_decodings(tokenizer, other, ours, skip=skip) == []


@pytest.mark.mechanism("T1")
@pytest.mark.real_weights
def test_the_published_vocabulary_gives_the_same_from_either_file(
    minilm: Path, strings: list[str], tmp_path: Path
) -> None:
    for name in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(minilm / name, tmp_path)
    wanted = by_transformers(fast(minilm), strings, truncation=False, padding=False)
    for directory in (minilm, tmp_path):
        tokenizer = load_tokenizer(directory)
        assert differing(strings, tokenizer.encode_batch(strings), wanted) == []
        assert tokenizer.special == {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
        assert [tokenizer.special_id(role) for role in ("pad", "unk", "cls", "sep", "mask")] == [0, 100, 101, 102, 103]
        assert tokenizer.vocab_size == 30522
        assert tokenizer.model_max_length == 512


@pytest.mark.mechanism("T7", "I1")
def test_pairs_and_truncation_equal_the_reference(trained: Callable[[str], Path], strings: list[str]) -> None:
    tokenizer, other = load_tokenizer(trained("uncased")), fast(trained("uncased"))
    first, second = strings[:1000], strings[1000:2000]
    for limit in (None, 3, 8, 9, 16, 31):
        made = other(
            first, second, split_special_tokens=True, truncation=limit is not None, max_length=limit, padding=False
        )
        ours = tokenizer.encode_batch(zip(first, second, strict=True), max_length=limit)
        assert [encoding.ids for encoding in ours] == made["input_ids"]
        assert [encoding.type_ids for encoding in ours] == made["token_type_ids"]
        whole = tokenizer.encode_batch(zip(first, second, strict=True))
        assert [encoding.n_truncated for encoding in ours] == [
            len(full) - len(cut) for full, cut in zip(whole, ours, strict=True)
        ]


@pytest.mark.mechanism("T7")
def test_special_tokens_in_a_text_are_read_as_such_only_on_request(
    trained: Callable[[str], Path], strings: list[str]
) -> None:
    tokenizer, other = load_tokenizer(trained("uncased")), fast(trained("uncased"))
    ours = tokenizer.encode_batch(strings, allow_special_text=True)
    assert differing(strings, ours, by_transformers(other, strings, specials_in_text=True)) == []
    text = "the [MASK] [SEP] of"
    assert {tokenizer.mask_id, tokenizer.sep_id} <= set(tokenizer.encode(text, allow_special_text=True).ids)
    assert tokenizer.special_ids & set(tokenizer.encode(text, specials=False).ids) <= {tokenizer.unk_id}


def _vocabulary(directory: Path, pieces: list[str], **settings: object) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "vocab.txt").write_text("\n".join([*BERT_SPECIALS, *pieces]) + "\n", encoding="utf-8")
    if settings:
        write_json(directory / "tokenizer_config.json", settings)
    return directory


@pytest.mark.mechanism("T6")
@pytest.mark.case("V031")
def test_lower_casing_and_accents_are_two_switches(tmp_path: Path) -> None:
    words = ["?", ",", "mädchen", "madchen", "Mädchen", "Madchen", "öl", "ol", "Öl", "Ol", "hacía", "hacia"]

    def spelled(number: int, **settings: object) -> list[str]:
        tokenizer = load_tokenizer(_vocabulary(tmp_path / str(number), words, **settings))
        return tokenizer.encode("Mädchen? Öl, hacía", specials=False).tokens

    kept = ["mädchen", "?", "öl", ",", "hacía"]
    stripped = ["madchen", "?", "ol", ",", "hacia"]
    unchanged = ["Mädchen", "?", "Öl", ",", "hacía"]
    assert spelled(1, do_lower_case=True, strip_accents=False) == kept
    assert spelled(2, do_lower_case=True, strip_accents=True) == stripped
    assert spelled(3, do_lower_case=True) == stripped
    assert spelled(4, do_lower_case=False) == unchanged
    assert spelled(5, do_lower_case=False, strip_accents=True) == ["Madchen", "?", "Ol", ",", "hacia"]
    assert spelled(6) == unchanged, "a vocabulary with capitals is cased when nothing says otherwise"
    words = [word for word in words if word == word.lower()]
    assert spelled(7) == stripped, "a vocabulary without capitals is uncased when nothing says otherwise"


@pytest.mark.mechanism("T1")
@pytest.mark.case("V033")
def test_a_word_over_one_hundred_characters_is_one_unknown(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(_vocabulary(tmp_path, ["a", "##a", "ok"]))

    def spelled(text: str) -> list[str]:
        return tokenizer.encode(text, specials=False).tokens

    assert spelled("a" * 100) == ["a", *["##a"] * 99]
    assert spelled("a" * 101) == ["[UNK]"]
    assert spelled("ok " + "a" * 101 + " ok") == ["ok", "[UNK]", "ok"]
    assert spelled("aaéßaa") == ["[UNK]"], "an unknown character makes the whole word unknown"
    started = time.perf_counter()
    assert spelled("a" * 2**20) == ["[UNK]"]
    assert time.perf_counter() - started < 1


def test_offsets_point_into_the_original_text(trained: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(trained("uncased"))
    text = "  Ünïversally\u00a0ACKNOWLEDGED  e\u0301t\u0301  "
    spans = [text[start:end] for start, end in tokenizer.encode(text, specials=False).offsets]
    # A combining mark that is stripped belongs to no token; a precomposed letter belongs whole.
    assert "".join(spans) == "ÜnïversallyACKNOWLEDGEDet"
