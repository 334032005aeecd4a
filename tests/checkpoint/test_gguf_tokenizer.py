"""The tokenizer in a GGUF file's metadata gives the published ids, for each kind that such files carry."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import regex
import sentencepiece
import tokenizers

from tests.cli import models
from tests.text.strings import varied_strings
from tests.tools.weights import GEMMA, need
from variorum.checkpoint.gguf import read_gguf
from variorum.checkpoint.gguf_tokenizer import PRE, load_gguf_tokenizer, published_files
from variorum.errors import DamagedFile
from variorum.text import Tokenizer
from variorum.text.document import KNOWN_PATTERNS

HERE = Path("model.gguf")
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
Metadata = dict[str, Any]


def loaded(metadata: Metadata) -> Tokenizer:
    found = load_gguf_tokenizer({"general.architecture": "llama", **metadata}, HERE)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def strings() -> list[str]:
    return varied_strings(1500, seed=6)


def from_pieces(path: Path) -> Metadata:
    """What llama.cpp's converter takes over from a SentencePiece model."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def kind(id: int) -> int:
        asked = ((model.IsUnknown, UNKNOWN), (model.IsControl, CONTROL), (model.IsUnused, UNUSED), (model.IsByte, BYTE))
        return next((kind for ask, kind in asked if ask(id)), NORMAL)

    ids = range(model.GetPieceSize())
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [model.IdToPiece(id) for id in ids],
        "tokenizer.ggml.scores": [model.GetScore(id) for id in ids],
        "tokenizer.ggml.token_type": [kind(id) for id in ids],
        "tokenizer.ggml.bos_token_id": model.bos_id(), "tokenizer.ggml.eos_token_id": model.eos_id(),
        "tokenizer.ggml.unknown_token_id": model.unk_id(), "tokenizer.ggml.add_bos_token": True,
    }  # fmt: skip


@pytest.mark.real_weights
@pytest.mark.parametrize("file", ["tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"])
def test_pieces_and_scores_are_the_published_sentencepiece_model_again(file: str, strings: list[str]) -> None:
    path = need("mistral-tokenizers") / file
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    ours = loaded(from_pieces(path))
    assert [one.ids for one in ours.encode_batch(strings)] == [[1, *ids] for ids in model.Encode(strings)]
    theirs = model.Encode(strings[:300])
    assert [ours.decode(ids) for ids in theirs] == [model.Decode(ids) for ids in theirs]


def test_a_user_defined_run_of_spaces_is_one_piece_though_the_file_spells_it_out() -> None:
    tokens = ["<unk>", "<s>", "</s>", "▁", "  ", "\n", "a", "b", "▁a"]
    kinds = [UNKNOWN, CONTROL, CONTROL, NORMAL, USER_DEFINED, USER_DEFINED, NORMAL, NORMAL, NORMAL]
    found = loaded({
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -9.0, 0.0, 0.0, -7.0, -8.0, -1.0],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.add_space_prefix": False, "tokenizer.ggml.add_bos_token": False,
    })  # fmt: skip
    assert found.encode("a  b\n a").tokens == ["a", "▁▁", "b", "\n", "▁a"]
    assert found.decode(found.encode("a  b\n a").ids) == "a  b\n a"
    assert found.encode("</s>").ids != [2] and found.encode("</s>", allow_special_text=True).ids == [2]


def byte_level(pre: str = "gpt-2", **more: Any) -> Metadata:
    """The byte-level vocabulary that the tests train, as a converter writes it."""
    document = json.loads(models.pieces().files["tokenizer.json"])
    vocab = document["model"]["vocab"]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in document["model"]["merges"]]
    tokens = sorted(vocab, key=vocab.__getitem__)
    special = {token["content"] for token in document["added_tokens"]}
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL if token in special else NORMAL for token in tokens],
        "tokenizer.ggml.merges": merges, "tokenizer.ggml.eos_token_id": vocab["<|endoftext|>"],
        "tokenizer.ggml.bos_token_id": vocab["<|endoftext|>"],
        **{f"tokenizer.ggml.{key}": value for key, value in more.items()},
    }  # fmt: skip


@pytest.mark.parametrize("specials", [False, True])
def test_merges_of_bytes_give_the_ids_of_the_published_document(strings: list[str], specials: bool) -> None:
    ours, theirs = loaded(byte_level()), models.pieces()
    made, wanted = (one.encode_batch(strings, allow_special_text=specials) for one in (ours, theirs))
    assert [(one.ids, one.offsets) for one in made] == [(one.ids, one.offsets) for one in wanted]
    assert [ours.decode(one.ids) for one in made] == [theirs.decode(one.ids) for one in made]


@pytest.mark.case("V037")
def test_a_begin_token_stands_where_the_file_says_so_and_nowhere_else() -> None:
    end = byte_level()["tokenizer.ggml.eos_token_id"]
    assert end not in loaded(byte_level()).encode("the law").ids
    plain = loaded(byte_level()).encode("the law").ids
    assert loaded(byte_level(add_bos_token=True)).encode("the law").ids == [end, *plain]
    assert loaded(byte_level(add_bos_token=True, add_eos_token=True)).encode("the law").ids == [end, *plain, end]
    begun = loaded(byte_level("llama-bpe")).encode("the law").ids
    assert begun.count(end) == 1 and begun[0] == end  # unless it says otherwise, Llama 3's begins
    assert end not in loaded(byte_level("llama-bpe", add_bos_token=False)).encode("the law").ids


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# How llama.cpp cuts text for these words (src/llama-vocab.cpp), in turn.
CUTS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                  r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "qwen2": [r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
              r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "tekken": [r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+"
               r"|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*|\p{N}"
               r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
}  # fmt: skip


def cut(text: str, patterns: list[str]) -> list[tuple[int, int]]:
    """Where the pieces of a text lie after each pattern has cut the pieces of the one before."""
    spans = [(0, len(text))]
    for pattern in patterns:
        finer: list[tuple[int, int]] = []
        for start, end in spans:
            done = start
            for match in regex.finditer(pattern, text[start:end]):
                finer += [(done, start + match.start()), (start + match.start(), start + match.end())]
                done = start + match.end()
            finer.append((done, end))
        spans = [span for span in finer if span[0] < span[1]]
    return spans


@pytest.mark.parametrize("name", CUTS)
def test_each_word_for_cutting_text_means_what_it_means_to_llama_cpp(name: str) -> None:
    document = json.loads(published_files(byte_level(name), "f")["tokenizer.json"])
    splitter = tokenizers.Tokenizer.from_str(json.dumps(document)).pre_tokenizer
    text = "It's 2,024 DON'T we'll\n\n  e-mail: naïve Ångström «x»  tabs\t\tend \r\n 東京 3.14159 a_b  "
    assert [span for _, span in splitter.pre_tokenize_str(text)] == cut(text, CUTS[name])


def test_every_pattern_is_one_that_published_tokenizers_use() -> None:
    patterns = {step["pattern"]["Regex"] for pre in PRE.values() for step in pre.steps if step["type"] == "Split"}
    assert patterns <= KNOWN_PATTERNS


@pytest.mark.real_weights
def test_smollm_is_cut_and_merged_as_llama_cpp_does_it(strings: list[str]) -> None:
    """Against merging by hand, pair by pair, lowest rank first."""
    metadata = dict(read_gguf(next(need("smollm2").glob("*.gguf"))).metadata)
    ours = load_gguf_tokenizer(metadata, HERE)
    assert ours is not None
    ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(metadata["tokenizer.ggml.merges"])}
    vocab = {token: id for id, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    plain = [text for text in strings if "<" not in text][:400]
    for text, found in zip(plain, ours.encode_batch(plain), strict=True):
        wanted = [id for a, b in cut(text, CUTS["smollm"]) for id in merged(text[a:b], ranks, vocab)]
        assert found.ids == wanted, text


def merged(piece: str, ranks: dict[tuple[str, ...], int], vocab: dict[str, int]) -> list[int]:
    parts = [models_alphabet()[byte] for byte in piece.encode()]
    while len(parts) > 1:
        pairs = [(ranks.get((a, b), len(ranks)), i) for i, (a, b) in enumerate(itertools.pairwise(parts))]
        rank, i = min(pairs)
        if rank == len(ranks):
            break
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return [vocab[part] for part in parts if part in vocab]  # 21 bytes that no text of theirs held have no token


def models_alphabet() -> list[str]:
    """GPT-2's letters for bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    return [chr(byte) if byte in shown else chr(256 + others.index(byte)) for byte in range(256)]


@pytest.mark.real_weights
def test_gemmas_metadata_is_read_as_its_pieces_say() -> None:
    ours = load_gguf_tokenizer(read_gguf(need("gemma-3-270m") / GEMMA).metadata, HERE)
    assert ours is not None
    text = "The capital of  Japan is\n\n\tTokyo 12345."
    wanted = ["<bos>", "The", "▁capital", "▁of", "▁▁", "Japan", "▁is", "\n\n", "\t", "Tokyo", "▁"]
    assert ours.encode(text).tokens == [*wanted, *"12345."]
    assert ours.decode(ours.encode(text).ids) == text
    assert ours.token_to_id("<end_of_turn>") in ours.special_ids


def test_word_pieces_are_the_published_vocabulary_again(strings: list[str]) -> None:
    theirs = models.words()
    names = list(theirs.engine.names)

    def marked(name: str) -> str:
        if name.startswith("[") and name.endswith("]"):
            return name
        return name[2:] if name.startswith("##") else f"▁{name}"

    ours = loaded({
        "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": [marked(name) for name in names],
        "tokenizer.ggml.token_type": [CONTROL if marked(name) == name else NORMAL for name in names],
        "tokenizer.ggml.unknown_token_id": theirs.unk_id, "tokenizer.ggml.seperator_token_id": theirs.sep_id,
        "tokenizer.ggml.padding_token_id": theirs.pad_id, "tokenizer.ggml.cls_token_id": theirs.cls_id,
    })  # fmt: skip
    assert list(ours.engine.names) == names
    made, wanted = ours.encode_batch(strings), theirs.encode_batch(strings)
    assert [(one.ids, one.offsets) for one in made] == [(one.ids, one.offsets) for one in wanted]


def without(*keys: str) -> Callable[[Metadata], Metadata]:
    return lambda metadata: {key: value for key, value in metadata.items() if key.rpartition(".")[2] not in keys}


def changed(**values: Any) -> Callable[[Metadata], Metadata]:
    return lambda metadata: metadata | {f"tokenizer.ggml.{key}": value for key, value in values.items()}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (changed(pre="tarot"), "'tarot', which is not known"),
        (without("pre"), "None, which is not known"),
        (changed(model="rwkv"), "of the kind 'rwkv'"),
        (without("tokens"), "tokens is no list"),
        (changed(token_type=[1]), "does not give the kind"),
        (changed(eos_token_id=10**6), "beyond"),
        (changed(merges=["ab"]), "no list of pairs"),
        (changed(merges=["zz yy"]), "not in the vocabulary"),
        (changed(add_bos_token="yes"), "neither true nor false"),
        (changed(tokens=["a"] * len(byte_level()["tokenizer.ggml.tokens"])), "one spelling"),
        (changed(model="llama"), "does not score"),
    ],
)
def test_what_contradicts_itself_is_refused_and_names_the_file(
    change: Callable[[Metadata], Metadata], says: str
) -> None:
    with pytest.raises(DamagedFile, match=says) as caught:
        loaded(change(byte_level()))
    assert caught.value.where == "model.gguf"


def test_a_file_without_a_tokenizer_has_none() -> None:
    assert load_gguf_tokenizer({"general.architecture": "llama"}, HERE) is None
