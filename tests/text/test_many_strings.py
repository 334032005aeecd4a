"""The long comparison: 100,000 other strings of every kind, ids, offsets and decoding, nightly."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sentencepiece
import transformers

from tests.text.reference import by_sentencepiece, by_transformers, differing, fast, wrong_decodings
from tests.text.strings import varied_strings
from tests.text.test_documents import DOCUMENTS
from tests.text.test_pieces import FILES, RENUMBERED, _cleaned, _published_ids
from variorum.text import load_tokenizer

pytestmark = pytest.mark.nightly

NATIVE = ["uncased", "cased", "accents-kept", "gpt2", "roberta", "bart", "qwen2", "neox", "whisper", "gpt1"]


def parts(count: int = 10) -> Iterator[list[str]]:
    """100,000 strings in parts, so that the reference's answers need not be held at once."""
    many = varied_strings(100_000, seed=1)
    size = len(many) // count
    for start in range(0, len(many), size):
        yield many[start : start + size]


@pytest.mark.mechanism("T1", "T2", "T3")
@pytest.mark.parametrize("family", NATIVE)
def test_equal_to_transformers(trained: Callable[[str], Path], family: str) -> None:
    tokenizer, other = load_tokenizer(trained(family)), fast(trained(family))
    for texts in parts():
        ours = tokenizer.encode_batch(texts)
        assert differing(texts, ours, by_transformers(other, texts)) == []
        assert wrong_decodings(tokenizer, other, ours, skip=True) == []


@pytest.mark.mechanism("T2", "T3", "T4")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_tokenizer_json_is_equal_to_transformers(tmp_path: Path, name: str) -> None:
    DOCUMENTS[name]().save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    other = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for texts in parts():
        ours = tokenizer.encode_batch(texts, allow_special_text=True)
        assert differing(texts, ours, by_transformers(other, texts, specials_in_text=True)) == []
        assert wrong_decodings(tokenizer, other, ours, skip=True) == []


@pytest.mark.mechanism("T2", "T4")
@pytest.mark.parametrize("family", [*FILES, *RENUMBERED])
def test_equal_to_sentencepiece(trained: Callable[[str], Path], family: str) -> None:
    tokenizer = load_tokenizer(trained(family))
    path = trained(family) / (FILES | RENUMBERED)[family]
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    for part in parts():
        texts = [text for text in part if "<eop>" not in text]
        cleaned = _cleaned(family, texts)
        made = by_sentencepiece(path, cleaned)
        ours = tokenizer.encode_batch(texts, specials=False)
        wanted = [(_published_ids(family, ids), offsets) for ids, offsets in made]
        if family in ("albert", "xlnet"):
            assert [encoding.ids for encoding in ours] == [ids for ids, _ in wanted]
        else:
            assert differing(texts, ours, wanted) == []
        for encoding, (ids, _) in zip(ours, made, strict=True):
            if tokenizer.unk_id not in encoding.ids:
                assert tokenizer.decode(encoding.ids) == model.Decode(ids)


@pytest.mark.mechanism("T5")
def test_bytes_are_equal_to_transformers(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    tokenizer, other = load_tokenizer(tmp_path), transformers.ByT5Tokenizer()
    for texts in parts():
        ours = tokenizer.encode_batch(texts)
        assert [made.ids for made in ours] == other(texts, split_special_tokens=True)["input_ids"]
        assert [tokenizer.decode(made.ids) for made in ours] == texts


@pytest.mark.real_weights
@pytest.mark.mechanism("T3")
def test_equal_to_mistral_common(mistral: Path, tmp_path: Path) -> None:
    assert str(mistral.parents[1]) in sys.path
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    shutil.copy(mistral / "tekken_240911.json", tmp_path / "tekken.json")
    theirs, tokenizer = Tekkenizer.from_file(mistral / "tekken_240911.json"), load_tokenizer(tmp_path)
    for texts in parts():
        ours = tokenizer.encode_batch(texts)
        assert [made.ids for made in ours] == [theirs.encode(text, bos=True, eos=False) for text in texts]
        assert [tokenizer.decode(made.ids) for made in ours] == texts
