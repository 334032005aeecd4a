"""The long comparison: 100,000 other strings per kind, nightly."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.text.reference import by_sentencepiece, by_transformers, differing, fast
from tests.text.strings import varied_strings
from variorum.text import load_tokenizer

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def many() -> list[str]:
    return varied_strings(100_000, seed=1)


@pytest.mark.parametrize("family", ["uncased", "cased", "accents-kept", "gpt2", "roberta"])
def test_equal_to_transformers(trained: Callable[[str], Path], many: list[str], family: str) -> None:
    tokenizer, other = load_tokenizer(trained(family)), fast(trained(family))
    for start in range(0, len(many), 10_000):
        texts = many[start : start + 10_000]
        assert differing(texts, tokenizer.encode_batch(texts), by_transformers(other, texts)) == []


@pytest.mark.parametrize(("family", "file"), [("t5", "spiece.model"), ("llama", "tokenizer.model")])
def test_equal_to_sentencepiece(trained: Callable[[str], Path], many: list[str], family: str, file: str) -> None:
    ours = load_tokenizer(trained(family)).encode_batch(many, specials=False)
    assert differing(many, ours, by_sentencepiece(trained(family) / file, many)) == []


@pytest.mark.real_weights
def test_equal_to_mistral_common(mistral: Path, many: list[str], tmp_path: Path) -> None:
    assert str(mistral.parents[1]) in sys.path
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    shutil.copy(mistral / "tekken_240911.json", tmp_path / "tekken.json")
    theirs = Tekkenizer.from_file(mistral / "tekken_240911.json")
    ours = load_tokenizer(tmp_path).encode_batch(many)
    assert [made.ids for made in ours] == [theirs.encode(text, bos=True, eos=False) for text in many]
