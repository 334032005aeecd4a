"""What holds for every kind of tokenizer: special tokens, truncation, empty texts, errors, saving."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text.conftest import MAKERS, write_json
from tests.text.reference import fast
from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.text import Tokenizer, check_vocabulary, load_tokenizer
from variorum.text.encoding import lengths_after_cut

KINDS = ["uncased", "cased", "gpt2", "roberta", "t5", "albert", "xlnet", "xlm-roberta", "deberta-v2", "llama"]


@pytest.fixture(params=KINDS)
def tokenizer(request: pytest.FixtureRequest, trained: Callable[[str], Path]) -> Tokenizer:
    return load_tokenizer(trained(request.param))


@pytest.mark.case("V036")
def test_an_empty_text_gives_integers_and_the_wrapper_alone(tokenizer: Tokenizer) -> None:
    bare = tokenizer.encode("", specials=False)
    assert (bare.ids, bare.offsets, bare.tokens, bare.type_ids, bare.attention) == ([], [], [], [], [])
    batch = tokenizer.pad([bare])
    assert batch.input_ids.shape == (1, 0)
    assert batch.input_ids.dtype == batch.attention_mask.dtype == batch.token_type_ids.dtype == np.int64
    wrapped = tokenizer.encode("")
    assert all(wrapped.special_mask)
    assert set(wrapped.offsets) <= {(0, 0)}
    blank = tokenizer.encode("   ")
    assert len(blank) >= len(wrapped)
    batch = tokenizer.pad(tokenizer.encode_batch(["", "hi"]))
    assert batch.input_ids.shape == batch.attention_mask.shape
    assert batch.attention_mask.sum(axis=1).tolist() == [len(wrapped), len(tokenizer.encode("hi"))]


@pytest.mark.mechanism("T7", "A6")
def test_padding_goes_where_the_checkpoint_wants_it(trained: Callable[[str], Path]) -> None:
    xlnet, bert = load_tokenizer(trained("xlnet")), load_tokenizer(trained("uncased"))
    texts = ["truth", "truth universally acknowledged"]
    left, right = xlnet.pad(xlnet.encode_batch(texts)), bert.pad(bert.encode_batch(texts), multiple_of=8)
    assert left.input_ids[0, 0] == xlnet.pad_id
    assert left.token_type_ids[0, 0] == 3
    assert left.attention_mask[0].tolist()[:2] == [0, 0]
    assert right.input_ids[0, -1] == bert.pad_id
    assert right.input_ids.shape[1] % 8 == 0


@pytest.mark.parametrize("text", ["a\ud800b", "\udfff", "x" * 50 + "\udc00"])
def test_a_lone_surrogate_is_refused_with_its_place(tokenizer: Tokenizer, text: str) -> None:
    place = next(place for place, char in enumerate(text) if 0xD800 <= ord(char) < 0xE000)
    for call in (lambda: tokenizer.encode(text), lambda: tokenizer.encode_batch(["fine", text])):
        with pytest.raises(UsageError, match=f"lone surrogate U[+]{ord(text[place]):04X} at position {place}"):
            call()
    with pytest.raises(UsageError, match="item 1: lone surrogate"):
        tokenizer.encode_batch(["fine", text])


def test_what_is_no_text_is_refused(tokenizer: Tokenizer) -> None:
    for wrong in (b"bytes", 3, None):
        with pytest.raises(UsageError, match="expected text, got"):
            tokenizer.encode(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="item 0: expected a text or a pair, got 3"):
        tokenizer.encode_batch([("a", "b", "c")])  # type: ignore[list-item]


@pytest.mark.case("V029")
def test_ids_beyond_the_vocabulary_are_refused(tokenizer: Tokenizer) -> None:
    size = tokenizer.vocab_size
    for wrong in (size, size + 5, -1):
        with pytest.raises(UsageError, match=f"id {wrong} is beyond the vocabulary of {size} tokens"):
            tokenizer.decode([0, wrong])
        with pytest.raises(UsageError, match="beyond the vocabulary"):
            tokenizer.id_to_token(wrong)
    assert tokenizer.token_to_id("no such token") is None
    assert all(tokenizer.token_to_id(tokenizer.id_to_token(id)) == id for id in range(size))


@pytest.mark.case("V029")
def test_a_vocabulary_larger_than_its_embedding_is_refused(trained: Callable[[str], Path], tmp_path: Path) -> None:
    tokenizer = load_tokenizer(trained("gpt2"))
    size = tokenizer.vocab_size
    with pytest.raises(DamagedFile, match=f"{size} ids but the embedding has {size - 4} rows"):
        check_vocabulary(tokenizer, size - 4)
    assert check_vocabulary(tokenizer, size) is None
    assert check_vocabulary(tokenizer, size + 271) == f"the embedding has 271 spare rows beyond the {size} ids"


def test_truncation_is_counted(tokenizer: Tokenizer) -> None:
    text, pair = "truth universally acknowledged that a single man", "in possession of a good fortune must be in want"
    for texts in ([text], [text, pair]):
        whole = tokenizer.encode(*texts)
        assert whole.n_truncated == 0
        for limit in range(sum(whole.special_mask), len(whole) + 2):
            for side in ("left", "right"):
                cut = tokenizer.encode(*texts, max_length=limit, side=side)  # type: ignore[arg-type]
                assert len(cut) == min(limit, len(whole))
                assert cut.n_truncated == len(whole) - len(cut)
                assert sum(cut.special_mask) == sum(whole.special_mask)
    left = tokenizer.encode(text, specials=False, max_length=3, side="left")
    assert left.ids == tokenizer.encode(text, specials=False).ids[-3:]


def test_no_room_for_the_wrapper_is_refused(trained: Callable[[str], Path]) -> None:
    tokenizer = load_tokenizer(trained("uncased"))
    with pytest.raises(UsageError, match="max_length 1 leaves no room for the 2 special tokens"):
        tokenizer.encode("a", max_length=1)
    assert tokenizer.encode("a", max_length=2).tokens == ["[CLS]", "[SEP]"]


@given(first=st.integers(0, 40), second=st.integers(0, 40), room=st.integers(0, 90))
def test_pairs_are_cut_longest_first(first: int, second: int, room: int) -> None:
    kept = lengths_after_cut([first, second], room)
    assert sum(kept) == min(first + second, room)
    assert kept[0] <= first
    assert kept[1] <= second
    if sum(kept) < first + second:
        short = min(first, second)
        assert min(kept) >= min(short, room // 2)


@pytest.mark.parametrize("name", MAKERS)
def test_what_is_saved_is_what_was_read(trained: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    tokenizer = load_tokenizer(trained(name))
    target = tmp_path / "deep" / "copy"
    tokenizer.save(target)
    assert {file.name: file.read_bytes() for file in target.iterdir()} == tokenizer.files
    assert set(tokenizer.files) == {file.name for file in trained(name).iterdir() if file.name != "config.json"}
    again = load_tokenizer(target)
    assert again.encode("truth universally é").ids == tokenizer.encode("truth universally é").ids
    assert again.special == tokenizer.special


def test_a_batch_is_its_members_one_by_one(tokenizer: Tokenizer, strings: list[str]) -> None:
    texts: list[str | tuple[str, str]] = [*strings[:200], *zip(strings[200:300], strings[300:400], strict=True)]
    singly = [tokenizer.encode(*([item] if isinstance(item, str) else item)) for item in texts]
    assert tokenizer.encode_batch(texts) == singly
    assert tokenizer.encode_batch([]) == []


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_encodes_within_itself(trained: Callable[[str], Path], text: str) -> None:
    for name in ("uncased", "gpt2", "t5", "llama"):
        tokenizer = load_tokenizer(trained(name)) if name not in _loaded else _loaded[name]
        _loaded[name] = tokenizer
        made = tokenizer.encode(text)
        assert all(0 <= start <= end <= len(text) for start, end in made.offsets)
        assert len(made.ids) == len(made.offsets) == len(made.tokens) == len(made.special_mask)
        assert tokenizer.special_ids & set(tokenizer.encode(text, specials=False).ids) <= {tokenizer.unk_id}
        if name == "gpt2":
            assert tokenizer.decode(made.ids) == text


_loaded: dict[str, Tokenizer] = {}


def test_a_token_of_a_mebibyte_is_one_mebibyte(trained: Callable[[str], Path]) -> None:
    for name in ("uncased", "gpt2", "t5", "llama"):
        tokenizer = load_tokenizer(trained(name))
        made = tokenizer.encode("a" * 2**20, specials=False)
        assert made.offsets[-1][1] == 2**20


def test_a_directory_without_a_tokenizer_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no tokenizer file; expected one of tokenizer\.json"):
        load_tokenizer(tmp_path)
    with pytest.raises(NotFound, match="no such directory"):
        load_tokenizer(tmp_path / "absent")


def test_a_link_out_of_the_directory_is_not_followed(trained: Callable[[str], Path], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a\nb\n[UNK]\n[CLS]\n[SEP]\n")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / "vocab.txt").symlink_to(secret)
    with pytest.raises(DamagedFile, match=r"vocab\.txt: is a link to .*secret', outside of its directory"):
        load_tokenizer(hostile)
    (hostile / "vocab.txt").unlink()
    (hostile / "vocab.txt").symlink_to("vocab.txt")
    with pytest.raises(NotFound):
        load_tokenizer(hostile)
    blobs, snapshot = tmp_path / "hub" / "blobs", tmp_path / "hub" / "snapshots" / "0123"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(trained("uncased").iterdir()):
        (blobs / str(number)).write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(f"../../blobs/{number}")
    assert load_tokenizer(snapshot).encode("a").tokens[0] == "[CLS]"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"do_lower_case": "yes"}, "do_lower_case must be true or false"),
        ({"padding_side": "top"}, "padding_side is 'top'"),
        ({"cls_token": 3}, "expected a token, found 3"),
        ({"cls_token": "[NONE]"}, "the cls token '[NONE]' is not in the vocabulary"),
        ({"added_tokens_decoder": {"x": "y"}}, "'x' is no token id"),
        ({"added_tokens_decoder": ["y"]}, "added_tokens_decoder must map ids"),
        ({"additional_special_tokens": "y"}, "additional_special_tokens must be a list"),
    ],
)
def test_settings_of_the_wrong_type_are_one_line(
    trained: Callable[[str], Path], tmp_path: Path, settings: dict[str, object], said: str
) -> None:
    (tmp_path / "vocab.txt").write_bytes((trained("uncased") / "vocab.txt").read_bytes())
    write_json(tmp_path / "tokenizer_config.json", settings)
    with pytest.raises(DamagedFile) as caught:
        load_tokenizer(tmp_path)
    assert said in str(caught.value)


@pytest.mark.mechanism("T7")
def test_roles_are_the_reference_s(trained: Callable[[str], Path]) -> None:
    for name in ("uncased", "cased", "gpt2", "roberta"):
        tokenizer, other = load_tokenizer(trained(name)), fast(trained(name))
        assert isinstance(other, transformers.PreTrainedTokenizerBase)
        assert dict(tokenizer.special) == {
            role.removesuffix("_token"): token
            for role, token in other.special_tokens_map.items()
            if isinstance(token, str)
        }
        assert tokenizer.vocab_size == len(other)


def test_text_is_light_to_import() -> None:
    code = "import sys, variorum.text; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "import sys, variorum.text as t; t.load_tokenizer; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
