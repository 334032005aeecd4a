"""What published directories do besides their vocabulary, and what people put into texts: as the reference does it.

Added tokens with their habits, decoded spaces, odd vocabulary files, and directories that name their family elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.text.conftest import BERT_SPECIALS, write_json
from tests.text.reference import by_transformers, differing, fast
from variorum.errors import DamagedFile, UsageError
from variorum.text import load_tokenizer
from variorum.text.directory import holds_tokenizer

SENTENCES = [
    "Well , do n't you 've seen it 's fine ?",
    "I 'm here . You 're not !",
    "a ' b ' c , d",
    "no change",
    " . , ? !",
]


def copied(source: Path, target: Path, **settings: Any) -> Path:
    """A directory with these settings besides its own."""
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    path = target / "tokenizer_config.json"
    write_json(path, json.loads(path.read_text(encoding="utf-8")) | settings)
    return target


@pytest.mark.mechanism("T7")
@pytest.mark.parametrize("family", ["uncased", "cased", "gpt2", "gpt1"])
def test_added_tokens_keep_their_habits(
    trained: Callable[[str], Path], strings: list[str], tmp_path: Path, family: str
) -> None:
    size = load_tokenizer(trained(family)).vocab_size
    habits = [
        {"content": "<ent>", "lstrip": True},
        {"content": "consort", "single_word": True},
        {"content": "<Cafe>", "normalized": True},
        {"content": "[PLACE]", "rstrip": True, "special": True},
        {"content": "\n\n"},
        {"content": "man possession", "lstrip": True, "rstrip": True},
    ]
    plain = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": False}
    decoder = {str(size + place): plain | habit for place, habit in enumerate(habits)}
    directory = copied(trained(family), tmp_path, added_tokens_decoder=decoder)
    tokenizer, other = load_tokenizer(directory), fast(directory)
    assert tokenizer.vocab_size == len(other) == size + len(habits)
    texts = [
        text
        for one in strings[:400]
        for text in (
            f"{one} <ent> {one}",
            f"the wife, housewife <Cafe><cafe>{one}",
            f"a [PLACE] {one}\n\nman possession",
        )
    ]
    ours = tokenizer.encode_batch(texts, allow_special_text=True)
    assert differing(texts, ours, by_transformers(other, texts, specials_in_text=True)) == []
    assert differing(texts, tokenizer.encode_batch(texts), by_transformers(other, texts)) == []
    assert [tokenizer.decode(made.ids) for made in ours] == [
        other.decode(made.ids, skip_special_tokens=True) for made in ours
    ]


@pytest.mark.mechanism("T4", "T7")
@pytest.mark.parametrize("family", ["t5", "llama", "xlm-roberta"])
def test_added_tokens_stand_where_they_were_written_in_a_sentencepiece_directory(
    trained: Callable[[str], Path], tmp_path: Path, family: str
) -> None:
    size = load_tokenizer(trained(family)).vocab_size
    token = {"content": "<ent>", "lstrip": True, "rstrip": True, "special": False}
    directory = copied(trained(family), tmp_path, added_tokens_decoder={str(size): token})
    tokenizer = load_tokenizer(directory)
    text = "the  <ent>  truth <ent>wife"
    made = tokenizer.encode(text, specials=False)
    places = [place for place, id in enumerate(made.ids) if id == size]
    assert [made.offsets[place] for place in places] == [(3, 12), (17, 23)]
    assert tokenizer.vocab_size == size + 1
    assert "<ent>" in tokenizer.decode(made.ids)
    whole = {"content": "wife", "single_word": True}
    tokenizer = load_tokenizer(copied(trained(family), tmp_path, added_tokens_decoder={str(size): whole}))
    assert tokenizer.encode("wife, housewife wifely").ids.count(size) == 1


@pytest.mark.parametrize("family", ["uncased", "gpt2", "gpt1"])
@pytest.mark.parametrize("tidy", [True, False])
def test_spaces_before_punctuation_are_taken_out_when_the_directory_says_so(
    trained: Callable[[str], Path], tmp_path: Path, family: str, tidy: bool
) -> None:
    directory = copied(trained(family), tmp_path, clean_up_tokenization_spaces=tidy)
    tokenizer, other = load_tokenizer(directory), fast(directory)
    ids = [made.ids for made in tokenizer.encode_batch(SENTENCES, specials=False)]
    assert [tokenizer.decode(one) for one in ids] == [other.decode(one, skip_special_tokens=True) for one in ids]
    if family == "gpt2":
        assert [tokenizer.decode(one) for one in ids] == SENTENCES, "bytes are exact, whatever the setting"


def test_text_of_merges_is_tidied_only_by_the_setting_that_names_the_damage(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    name = "clean_up_tokenization_spaces"
    forced = {name: True, f"{name}_for_bpe_even_though_it_will_corrupt_output": True}
    directory = copied(trained("gpt2"), tmp_path, **forced)
    tokenizer, other = load_tokenizer(directory), fast(directory)
    ids = [made.ids for made in tokenizer.encode_batch(SENTENCES)]
    assert [tokenizer.decode(one) for one in ids] == [other.decode(one) for one in ids]
    assert tokenizer.decode(ids[0]) == "Well, don't you've seen it's fine?"


@pytest.mark.case("V029")
@pytest.mark.parametrize(
    "content",
    [
        "\n".join([*BERT_SPECIALS, "the", "##th", "tru"]),
        "\r\n".join([*BERT_SPECIALS, "the", "##th", "tru", ""]),
        "\n".join([*BERT_SPECIALS, "the", "a\u2028b", "c\x85d", "e\x0cf", "##th", "tru", ""]),
        "\n".join([*BERT_SPECIALS, "the", "the", "##th", "tru", "tru", ""]),
    ],
    ids=["no last line end", "CRLF", "other line ends", "twice"],
)
def test_a_line_of_a_vocabulary_is_what_ends_in_a_line_feed(tmp_path: Path, content: str) -> None:
    (tmp_path / "vocab.txt").write_text(content, encoding="utf-8", newline="")
    write_json(tmp_path / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer"})
    tokenizer, other = load_tokenizer(tmp_path), fast(tmp_path)
    assert tokenizer.encode("the truth").ids == other("the truth")["input_ids"]
    assert tokenizer.vocab_size == max(other.get_vocab().values()) + 1


@pytest.mark.mechanism("T6")
def test_normalisation_that_changes_lengths_keeps_offsets_in_the_text_as_written(
    trained: Callable[[str], Path],
) -> None:
    text = "ﬁne İstanbul ½ Ａｆｕｌｌ é e\u0301 👩‍👩‍👧‍👦 wife"
    for name in ("uncased", "cased", "gpt2", "t5", "albert", "llama", "qwen2"):
        tokenizer = load_tokenizer(trained(name))
        made = tokenizer.encode(text, specials=False)
        start = text.index("wife")
        last = [span for span, token in zip(made.offsets, made.tokens, strict=True) if "wife" in token]
        assert [text[a:b].strip() for a, b in last] == ["wife"], name
        assert last[0][1] == start + 4, "code points, not bytes and not UTF-16 units"


@pytest.mark.mechanism("T7")
def test_xlnet_pads_left_with_its_own_segment_from_either_file(trained: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    fresh = copied(trained("xlnet"), tmp_path / "old")
    from variorum.text.train import train

    made = train(["the truth universally acknowledged"] * 50, 60, family="xlnet")
    made.save(tmp_path / "new")
    path = tmp_path / "new" / "tokenizer_config.json"
    write_json(path, {"tokenizer_class": "XLNetTokenizer"})
    for directory in (fresh, tmp_path / "new"):
        tokenizer = load_tokenizer(directory)
        batch = tokenizer.pad(tokenizer.encode_batch(["the", "the truth the truth"]))
        assert batch.token_type_ids[0, 0] == 3
        assert batch.attention_mask[0, 0] == 0
        assert batch.input_ids[0, 0] == tokenizer.pad_id


def test_a_directory_may_name_its_family_in_the_model_s_config(trained: Callable[[str], Path], tmp_path: Path) -> None:
    for name, config in (("pegasus", {"model_type": "pegasus"}), ("mbart", {"tokenizer_class": "MBartTokenizer"})):
        directory = tmp_path / name
        directory.mkdir()
        copied(trained(name), directory)
        (directory / "tokenizer_config.json").unlink()
        write_json(directory / "config.json", config)
        assert load_tokenizer(directory).encode("truth").ids == load_tokenizer(trained(name)).encode("truth").ids
    byt5 = tmp_path / "byt5"
    byt5.mkdir()
    assert not holds_tokenizer(byt5)
    write_json(byt5 / "config.json", {"model_type": "t5", "tokenizer_class": "ByT5Tokenizer"})
    assert holds_tokenizer(byt5)
    assert load_tokenizer(byt5).encode("é").ids == transformers.ByT5Tokenizer()("é")["input_ids"]


@pytest.mark.parametrize(
    ("family", "settings", "said"),
    [
        ("mbart", {"src_lang": "xx_YY"}, "the mbart wrapper needs a language token"),
        ("whisper", {"language": "klingon"}, "language 'klingon' is none of en, zh, de, es"),
        ("t5", {"extra_ids": -1}, "extra_ids -1 is not a small number"),
    ],
)
def test_settings_that_name_nothing_are_one_line(
    trained: Callable[[str], Path], tmp_path: Path, family: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(DamagedFile, match=said):
        load_tokenizer(copied(trained(family), tmp_path, **settings))


@pytest.mark.case("V036")
def test_a_text_of_nothing_but_what_is_dropped_is_an_empty_text(trained: Callable[[str], Path]) -> None:
    for name in ("uncased", "t5", "gpt1", "albert"):
        tokenizer = load_tokenizer(trained(name))
        for text in ("", "  ", "\u200b" if name == "uncased" else " "):
            made = tokenizer.encode(text, specials=False)
            assert made.ids == [] and made.offsets == []
        assert tokenizer.decode([]) == ""


def test_a_pad_longer_than_its_room_is_refused_where_it_is_asked_for(trained: Callable[[str], Path]) -> None:
    from variorum.text.inspection import inspected

    tokenizer = load_tokenizer(trained("uncased"))
    with pytest.raises(UsageError, match="4 tokens do not fit into 3"):
        inspected(tokenizer, "the truth", pad_to=3)
