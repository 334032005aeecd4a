"""Every family's vocabulary is learned, saved as it is published, and read by others to the same ids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece
import transformers

from tests.text.strings import SPECIALS, corpus
from variorum.errors import NotFound, UsageError
from variorum.text import Tokenizer, load_tokenizer
from variorum.text.corpora import austen
from variorum.text.families import FAMILIES, family_named
from variorum.text.readers import paragraphs
from variorum.text.train import train

LINES = corpus(1500)
WAYS = [(name, method) for name, family in FAMILIES.items() for method in family.methods]
# What the published vocabularies have in these places, and around one text and a pair.
PUBLISHED = {
    "bert": ({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}, "[CLS] A [SEP]", "[CLS] A [SEP] B [SEP]"),
    "roberta": ({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": -1}, "<s> A </s>", "<s> A </s> </s> B </s>"),
    "deberta": ({"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "[MASK]": -1}, "[CLS] A [SEP]",
                "[CLS] A [SEP] B [SEP]"),
    "modernbert": ({"[UNK]": -5, "[CLS]": -4, "[SEP]": -3, "[PAD]": -2, "[MASK]": -1}, "[CLS] A [SEP]",
                   "[CLS] A [SEP] B [SEP]"),
    "gpt2": ({"<|endoftext|>": -1}, "A", "A B"),
    "gpt-neox": ({"<|endoftext|>": 0, "<|padding|>": 1}, "A", "A B"),
    "gpt": ({"<unk>": 0}, "A", "A B"),
    "t5": ({"<pad>": 0, "</s>": 1, "<unk>": 2, "<extra_id_0>": -1, "<extra_id_99>": -100}, "A </s>", "A </s> B </s>"),
    "pegasus": ({"<pad>": 0, "</s>": 1, "<mask_1>": 2, "<mask_2>": 3, "<unk>": 105}, "A </s>", "A B </s>"),
    "albert": ({"<pad>": 0, "<unk>": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}, "[CLS] A [SEP]",
               "[CLS] A [SEP] B [SEP]"),
    "xlnet": ({"<unk>": 0, "<s>": 1, "</s>": 2, "<cls>": 3, "<sep>": 4, "<pad>": 5, "<mask>": 6, "<eod>": 7,
               "<eop>": 8}, "A <sep> <cls>", "A <sep> B <sep> <cls>"),
    "xlm-roberta": ({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": -1}, "<s> A </s>",
                    "<s> A </s> </s> B </s>"),
    "mbart": ({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "ar_AR": -26, "zh_CN": -2, "<mask>": -1},
              "A </s> en_XX", "A B </s> en_XX"),
    "deberta-v3": ({"[PAD]": 0, "[CLS]": 1, "[SEP]": 2, "[UNK]": 3, "[MASK]": -1}, "[CLS] A [SEP]",
                   "[CLS] A [SEP] B [SEP]"),
    "llama": ({"<unk>": 0, "<s>": 1, "</s>": 2, "<0x00>": 3, "<0xFF>": 258}, "<s> A", "<s> A <s> B"),
    "gemma": ({"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3}, "<bos> A", "<bos> A <bos> B"),
    "byt5": ({"<pad>": 0, "</s>": 1, "<unk>": 2, "<extra_id_0>": 259}, "A </s>", "A </s> B </s>"),
}  # fmt: skip


@pytest.fixture(scope="module")
def learned() -> Callable[..., Tokenizer]:
    made: dict[tuple[str, str], Tokenizer] = {}

    def get(name: str, method: str) -> Tokenizer:
        if (name, method) not in made:
            made[name, method] = train(LINES, 0 if method == "bytes" else 1500, family=name, method=method)  # type: ignore[arg-type]
        return made[name, method]

    return get


@pytest.fixture(scope="module")
def plain(strings: list[str]) -> list[str]:
    """Texts that spell no special token: the reference's unigram reads those from text even when told not to."""
    spelt = [token for token in SPECIALS if token not in ("▁", "##", "Ġ")]
    return [text for text in strings[:6000] if not any(token in text for token in spelt)]


@pytest.mark.mechanism("T1", "T2", "T3", "T4", "T5")
@pytest.mark.parametrize(("name", "method"), WAYS)
def test_the_reference_reads_the_saved_files_to_the_same_ids(
    learned: Callable[..., Tokenizer], plain: list[str], tmp_path: Path, name: str, method: str
) -> None:
    tokenizer = learned(name, method)
    tokenizer.save(tmp_path)
    ids = [made.ids for made in tokenizer.encode_batch(plain)]
    other = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert len(other) == tokenizer.vocab_size
    assert other(plain, split_special_tokens=True)["input_ids"] == ids
    assert other.padding_side == tokenizer.padding_side
    loaded = load_tokenizer(tmp_path)
    assert [made.ids for made in loaded.encode_batch(plain)] == ids
    assert (loaded.special, loaded.wrapper, loaded.kind) == (tokenizer.special, tokenizer.wrapper, tokenizer.kind)
    first, second = plain[:200], plain[200:400]
    pairs = tokenizer.encode_batch(zip(first, second, strict=True))
    assert [made.ids for made in pairs] == other(first, second, split_special_tokens=True)["input_ids"]


@pytest.mark.mechanism("T7", "I1")
@pytest.mark.parametrize("name", FAMILIES)
def test_special_tokens_stand_where_the_published_vocabulary_has_them(
    learned: Callable[..., Tokenizer], name: str
) -> None:
    tokenizer = learned(name, FAMILIES[name].methods[0])
    places, single, pair = PUBLISHED[name]
    size = tokenizer.vocab_size
    assert {token: tokenizer.token_to_id(token) for token in places} == {
        token: id % size for token, id in places.items()
    }

    def shape(texts: int) -> str:
        slots = tokenizer.wrapper.slots(texts)
        return " ".join("AB"[s.sequence] if s.id is None else tokenizer.id_to_token(s.id) for s in slots)  # type: ignore[index]

    assert (shape(1), shape(2)) == (single, pair)
    for token in tokenizer.special.values():
        assert tokenizer.special_ids.isdisjoint(set(tokenizer.encode(token, specials=False).ids) - {tokenizer.unk_id})


@pytest.mark.mechanism("T7")
def test_places_kept_free_give_bert_its_published_ids() -> None:
    tokenizer = train(LINES, 1500, family="bert", unused=99)
    special = {token: tokenizer.token_to_id(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    assert special == {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}
    assert tokenizer.token_to_id("[unused98]") == 99


@pytest.mark.mechanism("T1", "T3", "T4")
@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "deberta", "llama", "gemma", "t5", "xlm-roberta"])
def test_the_older_files_say_the_same_as_the_newer_one(
    learned: Callable[..., Tokenizer], plain: list[str], tmp_path: Path, name: str
) -> None:
    tokenizer = learned(name, FAMILIES[name].methods[0])
    tokenizer.save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    older = load_tokenizer(tmp_path)
    assert older.special == tokenizer.special
    assert older.vocab_size == tokenizer.vocab_size
    texts = plain
    if FAMILIES[name].methods == ("unigram",):
        # The library normalises grapheme by grapheme, SentencePiece by longest match: marks of one's own differ.
        texts = [text for text in plain if text.isascii() and text.isprintable()] + paragraphs(austen()["Emma"])[:500]
    ours = [made.ids for made in tokenizer.encode_batch(texts)]
    assert [made.ids for made in older.encode_batch(texts)] == ours


@pytest.mark.mechanism("T6")
@pytest.mark.parametrize(("name", "method"), [way for way in WAYS if way[1] != "bytes"])
def test_case_and_accents_are_two_switches_of_every_kind(name: str, method: str) -> None:
    lines = ["mädchen Mädchen madchen Madchen mAdchen"] * 30 + LINES[:400]

    def same(one: str, other: str, **switches: bool) -> bool:
        tokenizer = train(lines, 900, family=name, method=method, **switches)  # type: ignore[arg-type]
        return tokenizer.encode(one).ids == tokenizer.encode(other).ids

    for lower in (True, False):
        for strip in (True, False):
            switches = {"lower": lower, "strip_accents": strip}
            assert same("Mädchen", "mädchen", **switches) == lower
            assert same("mädchen", "madchen", **switches) == strip


def test_an_uncased_sentencepiece_vocabulary_has_no_model_that_would_keep_capitals() -> None:
    assert "spiece.model" in train(LINES, 600, family="t5").files
    assert "spiece.model" not in train(LINES, 600, family="t5", lower=True).files
    assert "spiece.model" in train(LINES, 600, family="albert").files, "its released code lower-cases before the model"


def test_the_saved_model_is_one_that_sentencepiece_itself_reads(
    learned: Callable[..., Tokenizer], tmp_path: Path
) -> None:
    tokenizer = learned("llama", "bpe")
    model = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.files["tokenizer.model"])
    text = "It is a truth universally acknowledged"
    assert tokenizer.encode(text, specials=False).ids == model.Encode(text)


def test_more_special_tokens_are_added_at_the_end() -> None:
    for name in ("bert", "gpt2", "t5", "llama"):
        tokenizer = train(LINES, 800, family=name, extra=["<speaker>", "[place]"])
        added = [tokenizer.token_to_id(token) for token in ("<speaker>", "[place]")]
        assert set(added) <= tokenizer.special_ids
        assert tokenizer.vocab_size <= 800
        assert tokenizer.encode("<speaker>", specials=False, allow_special_text=True).ids == added[:1]
        assert added[0] not in tokenizer.encode("<speaker>").ids


def test_names_are_known_and_wishes_that_do_not_fit_are_refused() -> None:
    assert family_named("BART") is FAMILIES["roberta"]
    with pytest.raises(NotFound, match="no family is called 'robert'; did you mean roberta or bert"):
        train(LINES, 500, family="robert")
    for said, wishes in {
        "bert does not use unigram but wordpiece or wordpiece-by-frequency; unigram is used by t5": {
            "family": "bert", "method": "unigram"},
        "min_count 0 is less than 1": {"family": "bert", "min_count": 0},
        "t5 has no 99 unused places": {"family": "t5", "unused": 99},
        "unigram of t5 has no floor under counts": {"family": "t5", "min_count": 2},
        "bytes are 384 ids, and no text is changed": {"method": "bytes", "lower": True},
        "special token 'speaker' is a word of the text": {"family": "bert", "extra": ["speaker"]},
    }.items():  # fmt: skip
        with pytest.raises(UsageError, match=said):
            train(LINES, 500, **wishes)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="more than the 4194304 ids"):
        train(LINES, 2**31, family="t5")
    with pytest.raises(UsageError, match="there is no text to learn from"):
        train(["", " \n"], 500, family="gpt2")
    with pytest.raises(UsageError, match="less than the special tokens of t5"):
        train(LINES, 90, family="t5")
    with pytest.raises(UsageError, match="cannot learn 120 pieces of these texts"):
        train(LINES, 120, family="llama")
