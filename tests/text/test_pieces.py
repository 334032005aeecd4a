"""SentencePiece models: the released library's ids and offsets, inside each family's ids and wrapper.

The reference is ``sentencepiece`` itself, the tokenizer that the models were published with. The conversions in
``transformers`` are no reference for offsets: they count a space put before the text as the text's first character,
and cut a composed letter at its first code point; nor for ids of texts that spell a control token. Where our offsets
leave the library's, because a family cleans the text first, invariants of the original text decide.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
import sentencepiece

from tests.text.conftest import write_json
from tests.text.reference import Wanted, by_sentencepiece, differing, released_clean_up
from variorum.errors import UsageError
from variorum.text import load_tokenizer
from variorum.text.aligned import CleanUp

FILES = {
    "t5": "spiece.model",
    "albert": "spiece.model",
    "xlnet": "spiece.model",
    "xlm-roberta": "sentencepiece.bpe.model",
    "deberta-v2": "spm.model",
    "llama": "tokenizer.model",
    "gemma": "tokenizer.model",
}
# These differ from the others in ids and wrapper alone.
RENUMBERED = {"pegasus": "spiece.model", "mbart": "sentencepiece.bpe.model", "mbart50": "sentencepiece.bpe.model"}


def _cleaned(family: str, texts: list[str]) -> list[str]:
    if family not in ("albert", "xlnet"):
        return texts
    return [released_clean_up(text, lower=family == "albert") for text in texts]


def _published_ids(family: str, ids: list[int]) -> list[int]:
    if family == "pegasus":
        return [id if id < 2 else id + 103 for id in ids]
    if family in ("xlm-roberta", "mbart", "mbart50"):
        return [{0: 3, 1: 0, 2: 2}.get(id, id + 1) for id in ids]
    return ids


@pytest.mark.mechanism("T2", "T4")
@pytest.mark.parametrize("family", [*FILES, *RENUMBERED])
def test_ids_and_offsets_equal_the_released_library(
    trained: Callable[[str], Path], strings: list[str], family: str
) -> None:
    tokenizer = load_tokenizer(trained(family))
    strings = [text for text in strings if "<eop>" not in text]  # a special token that XLNet's library reads from text
    made = by_sentencepiece(trained(family) / (FILES | RENUMBERED)[family], _cleaned(family, strings))
    wanted: Wanted = [(_published_ids(family, ids), offsets) for ids, offsets in made]
    ours = tokenizer.encode_batch(strings, specials=False)
    if family in ("albert", "xlnet"):  # their offsets are into the text before clean-up: the next test
        assert [encoding.ids for encoding in ours] == [ids for ids, _ in wanted]
    else:
        assert differing(strings, ours, wanted) == []


@pytest.mark.mechanism("T4")
@pytest.mark.parametrize("family", FILES)
def test_offsets_are_ordered_and_say_which_original_text_a_token_stands_for(
    trained: Callable[[str], Path], strings: list[str], family: str
) -> None:
    tokenizer = load_tokenizer(trained(family))
    model = sentencepiece.SentencePieceProcessor(model_file=str(trained(family) / FILES[family]))
    lower = family == "albert"

    def plain(text: str) -> str:
        cleaned = released_clean_up(text, lower=lower) if family in ("albert", "xlnet") else text
        return "".join(model.Normalize(cleaned).replace("▁", " ").split())

    checked = 0
    for text, encoding in zip(strings, tokenizer.encode_batch(strings, specials=False), strict=True):
        place = 0
        for (start, end), token in zip(encoding.offsets, encoding.tokens, strict=True):
            assert place <= end <= len(text)
            assert start <= end
            assert start >= place or token.startswith(("<0x", "▁")) or _shared(text, start, place), (text, encoding)
            place = max(place, end)
            letters = token.replace("▁", "")
            if start < end and letters.isalpha() and letters.isascii() and text[start:end].isascii():
                assert plain(text[start:end]) == letters, (text, token, start, end)
                checked += 1
    assert checked > 50_000


def _shared(text: str, start: int, place: int) -> bool:
    """Several tokens of one original character (½ is three) share its span."""
    return place - start == 1 and len(unicodedata.normalize("NFKD", text[start].lower())) > 1


@pytest.mark.mechanism("T6")
@pytest.mark.parametrize("lower", [True, False])
def test_clean_up_is_the_released_one_and_knows_where_each_character_came_from(strings: list[str], lower: bool) -> None:
    clean = CleanUp(lower=lower)
    for text in strings:
        made = clean(text)
        assert made.text == released_clean_up(text, lower=lower)
        assert len(made.text) == len(made.starts) == len(made.ends)
        for char, start, end in zip(made.text, made.starts, made.ends, strict=True):
            assert char in released_clean_up(f"a{text[start:end]}a", lower=lower) or char in "ςσ"


@pytest.mark.mechanism("T4", "T7")
def test_each_family_has_its_own_wrapper(trained: Callable[[str], Path]) -> None:
    def shape(family: str, *texts: str) -> list[tuple[str, int]]:
        made = load_tokenizer(trained(family)).encode(*texts)
        named = [
            name if special else str(sequence)
            for name, special, sequence in zip(made.tokens, made.special_mask, made.sequence_ids, strict=True)
        ]
        pairs = list(zip(named, made.type_ids, strict=True))
        return [pair for place, pair in enumerate(pairs) if place == 0 or pair != pairs[place - 1] or "<" in pair[0]]

    assert shape("t5", "truth", "wife") == [("0", 0), ("</s>", 0), ("1", 0), ("</s>", 0)]
    assert shape("albert", "truth", "wife") == [("[CLS]", 0), ("0", 0), ("[SEP]", 0), ("1", 1), ("[SEP]", 1)]
    assert shape("xlnet", "truth", "wife") == [("0", 0), ("<sep>", 0), ("1", 1), ("<sep>", 1), ("<cls>", 2)]
    assert shape("xlm-roberta", "truth", "wife") == [
        ("<s>", 0), ("0", 0), ("</s>", 0), ("</s>", 0), ("1", 0), ("</s>", 0),
    ]  # fmt: skip
    assert shape("deberta-v2", "truth", "wife") == [("[CLS]", 0), ("0", 0), ("[SEP]", 0), ("1", 1), ("[SEP]", 1)]
    assert shape("llama", "truth") == [("<s>", 0), ("0", 0)]
    xlnet = load_tokenizer(trained("xlnet"))
    assert (xlnet.padding_side, xlnet.pad_type_id) == ("left", 3)


@pytest.mark.mechanism("T4", "T7", "I3")
def test_t5_sentinels_count_down_from_the_end(trained: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(trained("t5"))
    size = tokenizer.vocab_size
    assert [tokenizer.token_to_id(f"<extra_id_{n}>") for n in (0, 1, 99)] == [size - 1, size - 2, size - 100]
    text = "in want <extra_id_0> wife"
    ids = tokenizer.encode(text, allow_special_text=True).ids
    assert ids.count(size - 1) == 1
    assert size - 1 not in tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special=False) == "in want<extra_id_0> wife</s>"


@pytest.mark.mechanism("T7")
@pytest.mark.parametrize("family", FILES)
def test_a_text_cannot_spell_a_special_token(trained: Callable[[str], Path], strings: list[str], family: str) -> None:
    tokenizer = load_tokenizer(trained(family))
    forbidden = tokenizer.special_ids - {tokenizer.unk_id}
    assert forbidden
    for encoding in tokenizer.encode_batch(strings, specials=False):
        assert forbidden.isdisjoint(encoding.ids)


@pytest.mark.mechanism("T4")
@pytest.mark.parametrize("family", [*FILES, *RENUMBERED])
def test_decoding_is_the_released_library_s(trained: Callable[[str], Path], strings: list[str], family: str) -> None:
    tokenizer = load_tokenizer(trained(family))
    model = sentencepiece.SentencePieceProcessor(model_file=str(trained(family) / (FILES | RENUMBERED)[family]))
    known = 0
    for text, encoding in zip(_cleaned(family, strings), tokenizer.encode_batch(strings), strict=True):
        if tokenizer.unk_id in encoding.ids or "<eop>" in text:
            continue  # the library prints a sign for unknowns that is not in the text
        assert tokenizer.decode(encoding.ids) == model.Decode(model.Encode(text))
        known += 1
    assert known > 1000


@pytest.mark.mechanism("T4")
def test_bytes_stand_for_what_llama_does_not_know(trained: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(trained("llama"))
    made = tokenizer.encode("wife\U0001f9ff", specials=False)
    assert made.tokens == ["▁wife", "<0xF0>", "<0x9F>", "<0xA7>", "<0xBF>"]
    assert made.offsets == [(0, 4), (4, 4), (4, 4), (4, 4), (4, 5)], "the last byte of a character covers it"
    assert tokenizer.decode(made.ids) == "wife\U0001f9ff"


@pytest.mark.case("V033")
def test_an_unknown_character_is_unknown_alone_in_a_unigram_model(trained: Callable[[str], Path]) -> None:
    made = load_tokenizer(trained("t5")).encode("tru\U0001f9ffth", specials=False)
    assert made.tokens.count("<unk>") == 1
    assert "".join(made.tokens).replace("▁", "") == "tru<unk>th"


@pytest.mark.mechanism("T7")
@pytest.mark.parametrize("family", FILES)
def test_a_special_token_is_read_from_a_text_on_request_and_where_it_stands(
    trained: Callable[[str], Path], family: str
) -> None:
    tokenizer = load_tokenizer(trained(family))
    for token in set(tokenizer.special.values()) - {tokenizer.special["unk"]}:
        text = f"truth{token}wife"
        made = tokenizer.encode(text, specials=False, allow_special_text=True)
        place = made.ids.index(tokenizer.token_to_id(token))
        assert made.offsets[place] == (5, 5 + len(token))
        assert made.ids[:place] == tokenizer.encode("truth", specials=False).ids
        assert made.offsets[-1][1] == len(text)
        after = tokenizer.encode("wife", specials=False)
        if family in ("llama", "gemma"):  # the text goes on: no space before it
            assert "".join(made.tokens[place + 1 :]) == "wife"
        else:
            assert made.ids[place + 1 :] == after.ids
    if "mask" in tokenizer.special and family != "deberta-v2":
        spaced = tokenizer.encode(f"truth {tokenizer.special['mask']} wife", specials=False, allow_special_text=True)
        assert spaced.offsets[spaced.ids.index(tokenizer.mask_id or 0)][0] == 5, "the mask takes the space before it"


def test_a_family_is_known_by_its_model_where_nothing_names_it(trained: Callable[[str], Path], tmp_path: Path) -> None:
    for family, file in FILES.items():
        if family == "gemma":  # its turns are not marked in the model: a directory has to say it
            continue
        directory = tmp_path / family
        directory.mkdir()
        (directory / file).write_bytes((trained(family) / file).read_bytes())
        named, unnamed = load_tokenizer(trained(family)), load_tokenizer(directory)
        assert unnamed.wrapper == named.wrapper
        assert unnamed.special == named.special


@pytest.mark.mechanism("T7")
def test_begin_and_end_tokens_are_the_directory_s_choice(trained: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes((trained("llama") / "tokenizer.model").read_bytes())

    def shape(**settings: bool) -> list[int]:
        write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", **settings})
        tokenizer = load_tokenizer(tmp_path)
        ids = tokenizer.encode("test").ids
        return [ids.count(tokenizer.bos_id or -1), ids.count(tokenizer.eos_id or -1)]

    assert shape() == [1, 0]
    assert shape(add_bos_token=False) == [0, 0]
    assert shape(add_eos_token=True) == [1, 1]


@pytest.mark.mechanism("T4", "T7")
def test_mbart_has_its_languages_after_the_pieces_and_one_beside_each_text(trained: Callable[[str], Path]) -> None:
    old, new = load_tokenizer(trained("mbart")), load_tokenizer(trained("mbart50"))
    size = sentencepiece.SentencePieceProcessor(
        model_file=str(trained("mbart") / "sentencepiece.bpe.model")
    ).GetPieceSize()
    assert [old.token_to_id(token) for token in ("ar_AR", "zh_CN", "<mask>")] == [size + 1, size + 25, size + 26]
    assert [new.token_to_id(token) for token in ("ar_AR", "sl_SI", "<mask>")] == [size + 1, size + 52, size + 53]
    assert [old.token_to_id(token) for token in ("<s>", "<pad>", "</s>", "<unk>")] == [0, 1, 2, 3]
    assert old.encode("truth").tokens[-2:] == ["</s>", "en_XX"]
    assert old.choose(language="ro_RO").encode("truth").tokens[-2:] == ["</s>", "ro_RO"]
    assert old.encode("truth").tokens[-1] == "en_XX", "a choice makes another tokenizer"
    made = new.encode("truth", "wife")
    assert [made.tokens[0], made.tokens[-1]] == ["ro_RO", "</s>"]
    assert new.choose(language="sl_SI").encode("truth", max_length=2).tokens == ["sl_SI", "</s>"]
    with pytest.raises(UsageError, match=r"no language is called 'ro_RU'; did you mean .*ro_RO"):
        old.choose(language="ro_RU")
    with pytest.raises(UsageError, match="no task to choose"):
        old.choose(task="translate")


@pytest.mark.mechanism("T4", "T7")
def test_pegasus_keeps_103_ids_before_its_third_piece(trained: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(trained("pegasus"))
    names = ["<pad>", "</s>", "<mask_1>", "<mask_2>", "<unk_2>", "<unk_102>", "<unk>"]
    assert [tokenizer.token_to_id(name) for name in names] == [0, 1, 2, 3, 4, 104, 105]
    assert tokenizer.encode("truth", "wife").tokens[-1] == "</s>"
    assert tokenizer.encode("truth", "wife").tokens.count("</s>") == 1
    assert tokenizer.encode("a <mask_1> b", allow_special_text=True).ids.count(2) == 1
    assert 2 not in tokenizer.encode("a <mask_1> b").ids


@pytest.mark.mechanism("T7")
def test_a_turn_marker_that_the_model_takes_out_of_any_text_is_text_too(trained: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(trained("gemma"))
    text = "truth<start_of_turn>wife<table>"
    plain, read = tokenizer.encode(text), tokenizer.encode(text, allow_special_text=True)
    marker = tokenizer.token_to_id("<start_of_turn>")
    assert marker not in plain.ids
    assert read.ids.count(marker) == 1
    assert tokenizer.token_to_id("<table>") in plain.ids, "a piece that nobody declared special stays one"
    assert tokenizer.decode(plain.ids) == text


@pytest.mark.mechanism("T4")
def test_the_space_put_before_a_text_is_the_directory_s_choice(
    trained: Callable[[str], Path], strings: list[str], tmp_path: Path
) -> None:
    model = (trained("llama") / "tokenizer.model").read_bytes()
    (tmp_path / "tokenizer.model").write_bytes(model)
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": False})
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode("truth", specials=False).tokens[0] != "▁truth"
    bare = sentencepiece.SentencePieceProcessor(model_proto=model + b"\x1a\x02\x18\x00")
    texts = strings[:2000]
    assert [made.ids for made in tokenizer.encode_batch(texts, specials=False)] == bare.Encode(texts)
    # The sign that stands for a space is one: the model cannot tell them apart.
    spaced = [text.replace("▁", " ") for text in texts]
    assert [tokenizer.decode(made.ids) for made in tokenizer.encode_batch(texts)] == spaced

    def after_a_special(**legacy: bool) -> list[str]:
        write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", **legacy})
        return load_tokenizer(tmp_path).encode("<s>truth", specials=False, allow_special_text=True).tokens

    assert after_a_special(legacy=True) == ["<s>", "▁truth"]
    assert "".join(after_a_special(legacy=False)) == "<s>truth"


@pytest.mark.mechanism("T4", "T5")
def test_bytes_that_are_no_text_are_shown_as_such_when_decoded(trained: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(trained("llama"))
    wife, *broken = (tokenizer.token_to_id(token) or 0 for token in ("▁wife", "<0xF0>", "<0x9F>", "<0xA7>"))
    assert tokenizer.decode([wife, *broken]) == "wife\ufffd\ufffd\ufffd"
    assert tokenizer.decode([wife, broken[0], wife]) == "wife\ufffd wife"
