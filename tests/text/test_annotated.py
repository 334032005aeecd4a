"""Files that annotators leave: sentences of CoNLL, a word a line, and questions of SQuAD; damage is told by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from variorum.errors import DamagedFile
from variorum.text.readers import read_rows
from variorum.text.rows import BadRow, Row


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("between", [" ", "\t", "   "])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_sentences_stand_between_blank_lines_and_documents(tmp_path: Path, between: str, ends: str):
    lines = ["-DOCSTART- -X- O O", "", "EU NNP B-NP B-ORG", "rejects VBZ B-VP O", "", "", "Blackburn NNP B-NP B-PER",
             "-DOCSTART- -X- O O", "# # O O"]  # fmt: skip
    text = ends.join(line.replace(" ", between) for line in lines)
    columns, rows = read_rows(written(tmp_path, "a.conll", b"\xef\xbb\xbf" + text.encode()))
    assert columns == ("words", "2", "3", "tags")
    assert rows == [
        Row(line=3, cells={"words": "EU rejects", "2": "NNP VBZ", "3": "B-NP B-VP", "tags": "B-ORG O"}),
        Row(line=7, cells={"words": "Blackburn", "2": "NNP", "3": "B-NP", "tags": "B-PER"}),
        Row(line=9, cells={"words": "#", "2": "#", "3": "O", "tags": "O"}),
    ]


def test_a_damaged_line_spoils_its_sentence_and_no_other(tmp_path: Path):
    text = "EU B-ORG\n\nGerman\nlamb O\n\nsays O\n\n\tO\nx\ty\tz\n\nNew York\tB-LOC\n[\tO\n"
    columns, rows = read_rows(written(tmp_path, "a.conll", text))
    assert columns == ("words", "tags")
    assert rows == [
        Row(line=1, cells={"words": "EU", "tags": "B-ORG"}),
        BadRow(line=3, reason="1 column where the first word has 2"),
        Row(line=6, cells={"words": "says", "tags": "O"}),
        BadRow(line=8, reason="column 1 is empty"),
        Row(line=11, cells={"words": '["New York", "["]', "tags": "B-LOC O"}),
    ]


def test_words_without_tags_are_a_column_alone(tmp_path: Path):
    columns, rows = read_rows(written(tmp_path, "a.conll", "EU\nrejects\n"))
    assert columns == ("words",) and rows == [Row(line=1, cells={"words": "EU rejects"})]


def test_a_file_without_a_word_is_no_sentence(tmp_path: Path):
    with pytest.raises(DamagedFile, match=r"a\.conll: no word is there"):
        read_rows(written(tmp_path, "a.conll", "-DOCSTART- -X- O O\n\n"))


def article(*asked: object, context: object = "Denver won.") -> dict[str, object]:
    return {"title": "x", "paragraphs": [{"context": context, "qas": list(asked)}]}


def test_questions_of_both_versions_in_order(tmp_path: Path):
    known = [{"text": text, "answer_start": 0} for text in ("Denver", "Denver won")]
    answered = {"id": "a", "question": "Who?", "answers": known}
    none = {"id": "b", "question": "When?", "is_impossible": True, "answers": [], "plausible_answers": known}
    columns, rows = read_rows(written(tmp_path, "a.json", json.dumps({"data": [article(answered), article(none)]})))
    assert columns == ("id", "question", "context", "answer")
    assert [row.cells["answer"] for row in rows if isinstance(row, Row)] == [
        '{"text": ["Denver", "Denver won"], "answer_start": [0, 0]}', "",
    ]  # fmt: skip
    assert rows[1] == Row(line=2, cells={"id": "b", "question": "When?", "context": "Denver won.", "answer": ""})


def test_a_damaged_question_keeps_its_place(tmp_path: Path):
    odd = [{"id": "a"}, {"question": "Who?", "answers": [{"text": "Denver"}]}, {"question": "Who?"}, "x"]
    _, rows = read_rows(
        written(tmp_path, "a.json", json.dumps({"data": [article(*odd), article(odd[2], context=None)]}))
    )
    assert [type(row) for row in rows] == [BadRow, BadRow, Row, BadRow, BadRow]
    assert rows[1] == BadRow(line=2, reason="an answer without its text or answer_start")


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"data": 3}', '{"data": [{"paragraphs": [{"context": "x"}]}]}', "[" * 9999]
)
def test_other_json_is_told_from_squads(tmp_path: Path, text: str):
    with pytest.raises(DamagedFile, match="no questions in it"):
        read_rows(written(tmp_path, "a.json", text))
    with pytest.raises(DamagedFile, match="no question is there"):
        read_rows(written(tmp_path, "a.json", '{"data": []}'))
