"""Mistral's published files: SentencePiece versions and tekken, against mistral-common's own tokenizers."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.text.reference import by_sentencepiece, differing
from variorum.errors import DamagedFile
from variorum.text import Tokenizer, load_tokenizer
from variorum.text.tekken import byte_alphabet

pytestmark = pytest.mark.real_weights

TEKKEN = ["tekken_240911.json", "tekken_240718.json"]
PIECES = ["tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"]


def _theirs(path: Path, name: str) -> Any:
    """mistral-common's tokenizer class, or a skip if its own requirements are not installed."""
    module = pytest.importorskip(f"mistral_common.tokens.tokenizers.{name}", exc_type=ImportError)
    return getattr(module, {"tekken": "Tekkenizer", "sentencepiece": "SentencePieceTokenizer"}[name])


@pytest.fixture(scope="module")
def tekken(mistral: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tokenizer]:
    """A tokenizer by its file's name, each read once."""
    read: dict[str, Tokenizer] = {}

    def get(file: str) -> Tokenizer:
        if file not in read:
            directory = tmp_path_factory.mktemp("tekken")
            shutil.copy(mistral / file, directory / "tekken.json")
            read[file] = load_tokenizer(directory)
        return read[file]

    return get


@pytest.mark.mechanism("T3")
@pytest.mark.parametrize("file", TEKKEN)
def test_tekken_ids_and_decoding_equal_mistral_common(
    mistral: Path, tekken: Callable[[str], Tokenizer], strings: list[str], file: str
) -> None:
    tokenizer = tekken(file)
    theirs = _theirs(mistral, "tekken").from_file(mistral / file)
    ours = tokenizer.encode_batch(strings)
    assert [encoding.ids for encoding in ours] == [theirs.encode(text, bos=True, eos=False) for text in strings]
    assert [tokenizer.decode(encoding.ids) for encoding in ours] == strings
    keep = importlib.import_module("mistral_common.tokens.tokenizers.base").SpecialTokenPolicy.KEEP
    for encoding in ours[:2000]:
        assert tokenizer.decode(encoding.ids, skip_special=False) == theirs.decode(encoding.ids, keep)
    assert tokenizer.vocab_size == theirs.n_words
    assert {role: tokenizer.special_id(role) for role in ("unk", "bos", "eos", "pad")} == {
        "unk": theirs.unk_id, "bos": theirs.bos_id, "eos": theirs.eos_id, "pad": theirs.pad_id,
    }  # fmt: skip


@pytest.mark.mechanism("T3")
def test_tekken_offsets_are_the_characters_whose_bytes_the_token_holds(
    tekken: Callable[[str], Tokenizer], strings: list[str]
) -> None:
    tokenizer = tekken(TEKKEN[0])
    bytes_of = {char: byte for byte, char in byte_alphabet().items()}
    for text, encoding in zip(strings, tokenizer.encode_batch(strings, specials=False), strict=True):
        raw = text.encode("utf-8")
        starts = [len(text[:place].encode("utf-8")) for place in range(len(text) + 1)] if len(text) < 200 else None
        place = 0
        for (start, end), token in zip(encoding.offsets, encoding.tokens, strict=True):
            piece = bytes(bytes_of[char] for char in token)
            assert raw[place : place + len(piece)] == piece
            if starts is not None:
                assert starts[start] <= place
                assert place + len(piece) <= starts[end]
                assert end - start <= len(piece)
            place += len(piece)
        assert place == len(raw)


@pytest.mark.mechanism("T3")
def test_every_code_point_is_split_as_by_mistral_common(mistral: Path, tekken: Callable[[str], Tokenizer]) -> None:
    """The two regular-expression engines have Unicode tables of their own; every seventh code point is looked at."""
    tokenizer = tekken(TEKKEN[0])
    theirs = _theirs(mistral, "tekken").from_file(mistral / TEKKEN[0])
    points = [chr(point) for point in range(0x20, 0x110000, 7) if not 0xD800 <= point < 0xE000]
    texts = ["".join(f"a{char}B1{char}" for char in points[place : place + 50]) for place in range(0, len(points), 50)]
    ours = tokenizer.encode_batch(texts, specials=False)
    assert [made.ids for made in ours] == [theirs.encode(text, bos=False, eos=False) for text in texts]


@pytest.mark.mechanism("T7")
def test_control_tokens_in_a_text_stay_text(tekken: Callable[[str], Tokenizer]) -> None:
    tokenizer = tekken(TEKKEN[0])
    text = "<s>[INST] hi [/INST]</s>"
    assert tokenizer.special_ids.isdisjoint(tokenizer.encode(text, specials=False).ids)
    assert tokenizer.encode(text, specials=False, allow_special_text=True).ids[:2] == [1, 3]


@pytest.mark.mechanism("T4")
@pytest.mark.parametrize("file", PIECES)
def test_sentencepiece_versions_equal_mistral_common(
    mistral: Path, strings: list[str], tmp_path: Path, file: str
) -> None:
    shutil.copy(mistral / file, tmp_path / "tokenizer.model")
    tokenizer = load_tokenizer(tmp_path)
    ours = tokenizer.encode_batch(strings)
    bare = tokenizer.encode_batch(strings, specials=False)
    assert differing(strings, bare, by_sentencepiece(mistral / file, strings)) == []
    theirs = _theirs(mistral, "sentencepiece")(str(mistral / file))
    assert [encoding.ids for encoding in ours] == [theirs.encode(text, bos=True, eos=False) for text in strings]
    assert [tokenizer.decode(encoding.ids) for encoding in ours[:3000]] == [
        theirs.decode(encoding.ids) for encoding in ours[:3000]
    ]


@pytest.mark.case("V037")
def test_a_plain_text_gets_exactly_one_begin_token(
    mistral: Path, tekken: Callable[[str], Tokenizer], tmp_path: Path
) -> None:
    shutil.copy(mistral / PIECES[0], tmp_path / "tokenizer.model")
    for tokenizer in (tekken(TEKKEN[0]), load_tokenizer(tmp_path)):
        ids = tokenizer.encode("test").ids
        assert ids.count(tokenizer.bos_id or -1) == 1
        assert ids[0] == tokenizer.bos_id


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("config", "default_vocab_size"), 10**9, "default_vocab_size is 1000000000"),
        (("config", "default_vocab_size"), 150, "does not have"),
        (("config", "pattern"), 3, "no pattern"),
        (("config", "pattern"), "(((", "fails or never finishes"),
        (("vocab", 300, "token_bytes"), "?!", "token 300 has no rank or no bytes"),
        (("vocab", 300, "rank"), 301, "token 300 has rank 301"),
        (("vocab", 300, "token_bytes"), "YQ==", "occurs twice"),
        (("special_tokens",), "x", "must be a list"),
    ],
)
def test_a_damaged_file_is_one_line(
    mistral: Path, tmp_path: Path, path: tuple[Any, ...], value: object, said: str
) -> None:
    document = json.loads((mistral / TEKKEN[0]).read_bytes())
    document["vocab"] = document["vocab"][:1000]
    document["config"]["default_vocab_size"] = 2000
    spot = document
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    (tmp_path / "tekken.json").write_text(json.dumps(document))
    with pytest.raises(DamagedFile, match=r"tekken\.json") as caught:
        load_tokenizer(tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
