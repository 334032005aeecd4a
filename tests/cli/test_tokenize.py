"""What a model gets to see of a text, and vocabularies learned from the shipped novels, by command."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import transformers

from tests.cli.verbs import answered, listed, said
from variorum.cli import main
from variorum.text import load_tokenizer
from variorum.text.corpora import austen
from variorum.text.readers import paragraphs

TEDDY = "This teddy bear is so cute"
CORPUS = [TEDDY.lower()] * 50 + ["it really is"] * 50


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A vocabulary that has the example's words whole, with BERT's published special ids."""
    from variorum.text.train import train

    directory = tmp_path_factory.mktemp("tokenize") / "bert"
    train(CORPUS, 260, family="bert", method="wordpiece-by-frequency", unused=99).save(directory)
    return str(directory)


@pytest.fixture(scope="module")
def novel(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The beginning of Emma, as a text file."""
    path = tmp_path_factory.mktemp("novel") / "emma.txt"
    path.write_text("\n\n".join(paragraphs(austen()["Emma"])[:300]), encoding="utf-8")
    return str(path)


@pytest.mark.mechanism("I1", "T7", "A6")
def test_a_pair_as_a_model_gets_it(bert: str, capsys: pytest.CaptureFixture[str]) -> None:
    [made] = answered(capsys, "tokenize", TEDDY, "--pair", "It really is", "--model", bert, "--pad-to", "14")
    words = ["this", "teddy", "bear", "is", "so", "cute"]
    assert made["pieces"] == ["[CLS]", *words, "[SEP]", "it", "really", "is", "[SEP]", "[PAD]", "[PAD]"]
    assert [made["ids"][place] for place in (0, 7, 11, 12)] == [101, 102, 102, 0]
    assert made["segments"] == [0] * 8 + [1] * 4 + [0] * 2
    assert made["mask"] == [1] * 12 + [0] * 2
    assert made["positions"] == [*range(12), None, None]
    assert [TEDDY[start:end] for start, end in made["offsets"][1:7]] == TEDDY.split()
    assert made["of"] == [None, *[0] * 6, None, *[1] * 3, None, None, None]
    assert (made["tokens"], made["words"], made["fertility"], made["unknown"]) == (9, 9, 1.0, 0)


@pytest.mark.mechanism("I1")
def test_people_get_a_row_for_each_token(bert: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "tokenize", TEDDY + " ☃", "--model", bert).splitlines()
    assert lines[0].split() == ["position", "piece", "id", "segment", "mask", "offsets", "text"]
    assert lines[1].split() == ["0", "[CLS]", "101", "0", "1"]
    assert lines[3].split()[1::4] == ["teddy", "5–10"]
    assert lines[8].split()[1:3] == ["[UNK]", "100"]
    assert lines[-1] == "7 tokens for 7 words, 1.00 a word; 1 unknown: '☃'"


@pytest.mark.mechanism("T1")
@pytest.mark.case("V033")
def test_a_word_over_one_hundred_characters_is_unknown(bert: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [answered(capsys, "tokenize", f"is {'s' * count} is", "--model", bert, "--bare")[0] for count in (100, 101)]
    assert [row["pieces"].count("[UNK]") for row in rows] == [0, 1]
    assert rows[1]["pieces"] == ["is", "[UNK]", "is"]
    assert rows[1]["unknown_texts"] == ["s" * 101]


def test_a_file_is_an_overview_and_a_line_of_json_for_each_text(
    bert: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = tmp_path / "texts.csv"
    source.write_text(f"id,note\n1,{TEDDY}\n2,it is\n")
    rows = listed(capsys, "tokenize", "--file", str(source), "--column", "note", "--model", bert)
    assert [row["text"] for row in rows] == [TEDDY, "it is"]
    assert [row["tokens"] for row in rows] == [6, 2]
    lines = said(capsys, "tokenize", "--file", str(source), "--column", "note", "--model", bert).splitlines()
    assert lines[0].split() == ["tokens", "words", "fertility", "unknown", "cut", "text"]
    assert lines[1].split()[:5] == ["6", "6", "1", "0", "0"]
    assert lines[-1] == "8 tokens for 8 words, 1.00 a word; 0 unknown"


@pytest.mark.mechanism("T7")
def test_special_tokens_are_text_unless_asked_for(bert: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "is [SEP] it"
    assert answered(capsys, "tokenize", text, "--model", bert)[0]["ids"].count(102) == 1
    assert answered(capsys, "tokenize", text, "--model", bert, "--special-text")[0]["ids"].count(102) == 2
    assert answered(capsys, "tokenize", text, "--model", bert, "--bare")[0]["ids"].count(102) == 0


def test_what_is_cut_is_told(bert: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokenize", TEDDY, "--model", bert, "--max-length", "5", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    [made] = json.loads(out)
    assert made["pieces"] == ["[CLS]", "this", "teddy", "bear", "[SEP]"]
    assert made["cut"] == 3 and made["words"] == 3
    assert err == "3 tokens cut from 1 of 1 text\n"
    settings = Path(bert) / "tokenizer_config.json"
    whole = settings.read_text()
    settings.write_text(json.dumps(json.loads(whole) | {"model_max_length": 4}))
    assert main(["tokenize", TEDDY, "--model", bert]) == 0
    assert capsys.readouterr().err == "longer than the 4 tokens that this model takes: 1 of 1 text\n"
    settings.write_text(whole)


@pytest.mark.mechanism("T5")
def test_bytes_need_no_files(capsys: pytest.CaptureFixture[str]) -> None:
    [made] = answered(capsys, "tokenize", "é", "--model", "byt5")
    assert made["ids"] == [0xC3 + 3, 0xA9 + 3, 1]
    assert made["offsets"][:2] == [[0, 1], [0, 1]]


def test_without_a_model_the_shipped_novel_gives_the_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    [made] = answered(capsys, "tokenize", TEDDY)
    assert made["pieces"][:2] == ["[CLS]", "this"] and made["pieces"][-1] == "[SEP]"


@pytest.mark.mechanism("T4", "T7")
def test_the_language_of_a_text_is_chosen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, refuse: Callable[..., str]
) -> None:
    from variorum.text.train import train

    train(CORPUS, 90, family="mbart").save(tmp_path / "mbart")
    words = ["tokenize", "it is", "--model", str(tmp_path / "mbart")]
    assert answered(capsys, *words)[0]["pieces"][-1] == "en_XX"
    assert answered(capsys, *words, "--language", "ro_RO")[0]["pieces"][-1] == "ro_RO"
    assert "no language is called 'ro'" in refuse(*words, "--language", "ro", code=2)
    assert "ro_RO" in said(capsys, "tokenizer", "info", str(tmp_path / "mbart"))


def test_a_text_a_line_comes_from_stdin(
    bert: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{TEDDY}\r\nit is\n".encode())))
    assert [row["text"] for row in listed(capsys, "tokenize", "--model", bert)] == [TEDDY, "it is"]


def test_what_makes_no_sense_is_one_line(
    bert: str, tmp_path: Path, refuse: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert "there is no text" in refuse("tokenize", "--model", bert, code=2)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    assert "stdin: is not UTF-8 at byte 0" in refuse("tokenize", "--model", bert, code=2)
    assert "--pair has no first text" in refuse("tokenize", "--pair", "a", "--model", bert, code=2)
    assert "both a text and --file" in refuse("tokenize", "a", "--file", "b.txt", "--model", bert, code=2)
    assert "8 tokens do not fit into 5" in refuse("tokenize", TEDDY, "--model", bert, "--pad-to", "5", code=2)
    assert "--pad-to 0 holds no token" in refuse("tokenize", TEDDY, "--model", bert, "--pad-to", "0", code=2)
    assert "leaves no room" in refuse("tokenize", TEDDY, "--model", bert, "--max-length", "1", code=2)
    assert "no language to choose" in refuse("tokenize", "a", "--model", bert, "--language", "en", code=2)
    assert "no tokenizer file" in refuse("tokenize", "a", "--model", str(tmp_path), code=3)
    assert "no such file" in refuse("tokenize", "--file", str(tmp_path / "none"), "--model", bert, code=3)
    (tmp_path / "tokenizer.json").write_text("{")
    assert "not valid JSON" in refuse("tokenize", "a", "--model", str(tmp_path), code=7)
    (tmp_path / "b.txt").write_bytes(b"\xff\xfea")
    assert "b.txt" in refuse("tokenize", "--file", str(tmp_path / "b.txt"), "--model", bert, code=7)


# --- learning ---


@pytest.mark.mechanism("T1", "T2", "T3", "T4", "T6")
@pytest.mark.parametrize(
    ("words", "files"),
    [
        (["--kind", "wordpiece", "--min-count", "5"], {"vocab.txt"}),
        (["--kind", "wordpiece-by-frequency", "--cased"], {"vocab.txt"}),
        (["--family", "bart"], {"vocab.json", "merges.txt"}),
        (["--kind", "byte-bpe"], {"vocab.json", "merges.txt"}),
        (["--kind", "bpe"], {"tokenizer.model"}),
        (["--kind", "unigram"], {"spiece.model"}),
        (["--family", "albert", "--keep-accents"], {"spiece.model"}),
        (["--family", "gpt", "--special", "<a>", "<b>"], set()),
    ],
    ids=lambda one: " ".join(sorted(one) if isinstance(one, set) else one),
)
def test_a_vocabulary_of_a_novel_is_read_by_others_to_the_same_ids(
    novel: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], files: set[str]
) -> None:
    out = tmp_path / "made"
    told = answered(capsys, "tokenizer", "train", *words, "--vocab", "1200", "--file", novel, "--out", str(out))
    assert told["vocab"] == 1200
    assert 1 < told["fertility"] < 4 and told["unknown"] == 0
    assert {file.name for file in out.iterdir()} == set(told["files"])
    assert files | {"tokenizer.json", "tokenizer_config.json"} <= set(told["files"])
    assert told["lowercase"] == (told["family"] in ("bert", "albert", "gpt") and "--cased" not in words)
    texts = paragraphs(austen()["Persuasion"])[:200]
    tokenizer = load_tokenizer(out)
    ids = [made.ids for made in tokenizer.encode_batch(texts)]
    assert transformers.AutoTokenizer.from_pretrained(out)(texts)["input_ids"] == ids
    info = answered(capsys, "tokenizer", "info", str(out))
    assert info["vocab"] == 1200
    assert {role: entry["id"] for role, entry in info["special"].items()} == {
        role: tokenizer.special_id(role) for role in tokenizer.special
    }


def test_the_shipped_novels_are_enough_to_learn_from(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--kind", "byte-bpe", "--vocab", "600", "--austen", "--out", str(tmp_path / "made")]
    told = answered(capsys, "tokenizer", "train", *words)
    assert told["characters"] > 4_000_000


@pytest.mark.mechanism("T5")
def test_bytes_are_written_without_learning(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = answered(capsys, "tokenizer", "train", "--kind", "bytes", "--out", str(tmp_path / "made"))
    assert (told["vocab"], told["files"]) == (384, ["tokenizer_config.json"])
    assert load_tokenizer(tmp_path / "made").encode("a").ids == [100, 1]


def test_info_says_what_stands_around_a_text(bert: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = dict(line.split("  ", 1) for line in said(capsys, "tokenizer", "info", bert).splitlines() if "  " in line)
    assert lines["a pair"].strip() == "[CLS] A [SEP] B:1 [SEP]:1"
    assert "mask [MASK] 103" in lines["special"]
    assert answered(capsys, "tokenizer", "info", "byt5")["one_text"] == "A </s>"


def test_nothing_is_written_when_something_is_wrong(
    novel: str, tmp_path: Path, refuse: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "made"

    def refusal(*words: str, code: int = 2) -> str:
        line = refuse("tokenizer", "train", "--out", str(out), *words, code=code)
        assert list(tmp_path.iterdir()) == []
        return line

    assert "there is nothing to learn from" in refusal("--kind", "unigram", "--vocab", "500")
    assert "no size is given; give --vocab" in refusal("--kind", "unigram", "--file", novel)
    assert "is less than 5 specials and" in refusal("--kind", "wordpiece", "--vocab", "20", "--file", novel)
    assert "bert does not use unigram" in refusal(
        "--kind", "unigram", "--family", "bert", "--vocab", "500", "--file", novel
    )
    assert "both --lowercase and --cased" in refusal("--lowercase", "--cased", "--vocab", "500", "--file", novel)
    assert "bytes learn nothing from texts" in refusal("--kind", "bytes", "--austen")
    assert "no family is called 'robert'" in refusal("--family", "robert", "--vocab", "500", "--file", novel, code=3)
    assert "no such file" in refusal("--vocab", "500", "--file", str(tmp_path / "none.txt"), code=3)

    def full(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device", str(self))

    from variorum.text.tokenizer import Tokenizer

    monkeypatch.setattr(Tokenizer, "save", lambda self, directory: (directory.mkdir(), full(directory / "a", b"")))
    assert "no space left on device" in refusal("--kind", "byte-bpe", "--vocab", "300", "--file", novel, code=5)


def test_a_directory_that_is_there_is_left_alone(novel: str, tmp_path: Path, refuse: Callable[..., str]) -> None:
    (tmp_path / "note").write_text("mine")
    words = ["--kind", "byte-bpe", "--vocab", "300", "--file", novel]
    assert "is there already" in refuse("tokenizer", "train", "--out", str(tmp_path), *words, code=2)
    assert [file.name for file in tmp_path.iterdir()] == ["note"]


def test_fewer_pieces_than_asked_for_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "small.txt"
    source.write_text("aa aa ab\n")
    words = ["tokenizer", "train", "--kind", "wordpiece", "--vocab", "500", "--file", str(source)]
    assert main([*words, "--out", str(tmp_path / "made")]) == 0
    assert "ids, not 500: the texts have no more pairs to learn" in capsys.readouterr().err
