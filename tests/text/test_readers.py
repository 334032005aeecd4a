"""Files of texts and of labelled rows, as people really export them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.text.corpora import NOVELS, austen, sentiment
from variorum.text.readers import BadRow, paragraphs, read_documents, read_table, read_text


@pytest.mark.case("V053")
def test_a_spreadsheet_s_export_reads_exactly_and_bad_rows_are_named(tmp_path: Path) -> None:
    file = tmp_path / "export.csv"
    file.write_bytes(
        b"\xef\xbb\xbftext,label\r\n"
        b'"good, really",pos\r\n'
        b'"she said ""no""",neg\r\n'
        b'"two\r\nlines",pos\r\n'
        b",neg\r\n"
        b"alone\r\n"
        b"\r\n"
    )
    table = read_table(file, required=["text", "label"])
    assert table.columns == ("text", "label")
    assert [row.cells for row in table.rows] == [
        {"text": "good, really", "label": "pos"},
        {"text": 'she said "no"', "label": "neg"},
        {"text": "two\r\nlines", "label": "pos"},
    ]
    assert [row.line for row in table.rows] == [2, 3, 4]
    assert table.bad == [
        BadRow(line=6, reason="empty text"),
        BadRow(line=7, reason="1 cell for 2 columns"),
    ]
    assert table.total == 5
    assert table.column("label") == ["pos", "neg", "pos"]


def test_an_empty_cell_is_a_cell_where_it_is_not_required(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("text\tnote\none\t\ntwo\tx\ty\n")
    table = read_table(file, required=["text"])
    assert [row.cells for row in table.rows] == [{"text": "one", "note": ""}]
    assert table.bad == [BadRow(line=3, reason="3 cells for 2 columns")]


def test_json_lines_name_their_bad_lines(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl.gz"
    lines = ['{"text": "é\\u2028", "label": 1}', "{broken", "", "[1]", '{"text": "b", "label": null, "ok": true}']
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    table = read_table(file, required=["text"])
    assert [row.cells for row in table.rows] == [
        {"text": "é\u2028", "label": "1", "ok": ""},
        {"text": "b", "label": "", "ok": "true"},
    ]
    assert [bad.line for bad in table.bad] == [2, 4]
    assert table.total == 4
    assert read_table(file, required=["label"]).bad[-1] == BadRow(line=5, reason="empty label")


@pytest.mark.parametrize(
    ("name", "content", "kind", "said"),
    [
        ("a.csv", b"", DamagedFile, "empty file"),
        ("a.csv", b"text,label\n", DamagedFile, "no usable row"),
        ("a.csv", b"text,text\na,b\n", DamagedFile, "column 'text' occurs twice"),
        ("a.csv", b'text,label\n"never closed,b\n', DamagedFile, "from line 2"),
        ("a.csv", b"text,label\n\xffx,b\n", DamagedFile, "line 2: not UTF-8 at byte 11"),
        ("a.csv", "text,label\na,b\n".encode("utf-16"), DamagedFile, "this is UTF-16"),
        ("a.csv", b"txt,label\na,b\n", NotFound, "no column 'text' among txt, label; did you mean txt?"),
        ("a.jsonl", b"not json\n", DamagedFile, "no line is a JSON object"),
        ("a.csv.gz", b"not gzip", DamagedFile, "broken gzip"),
        ("a.xlsx", b"PK", UsageError, "cannot read rows from .xlsx"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(
    tmp_path: Path, name: str, content: bytes, kind: type[Exception], said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(kind) as caught:
        read_table(tmp_path / name, required=["text"])
    assert said in str(caught.value)
    assert name in str(caught.value)
    with pytest.raises(NotFound, match="no such file"):
        read_table(tmp_path / "absent.csv")


def test_a_cell_may_be_longer_than_any_limit_of_the_csv_module(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text("text\n" + "x" * 300_000 + "\n")
    assert len(read_table(file).column("text")[0]) == 300_000


def test_a_text_is_split_as_asked(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes("\ufeffOne\r\ntwo.\r\n \r\n\r\n  Three\t four.\n".encode())
    assert read_text(file) == "One\ntwo.\n \n\n  Three\t four.\n"
    assert read_documents(file) == ["One two.", "Three four."]
    assert read_documents(file, by="line") == ["One", "two.", "  Three\t four."]
    assert len(read_documents(file, by="file")) == 1
    with pytest.raises(UsageError, match="did you mean line"):
        read_documents(file, by="lines")
    assert paragraphs("") == paragraphs("\n \n") == []


def test_the_novels_are_whole() -> None:
    novels = austen()
    assert list(novels) == list(NOVELS)
    assert sum(map(len, novels.values())) > 4_000_000
    pride = paragraphs(novels["Pride and Prejudice"])
    assert (
        "It is a truth universally acknowledged, that a single man in possession of a good fortune, "
        "must be in want of a wife."
    ) in pride


def test_the_rated_snippets_are_all_there() -> None:
    snippets = sentiment()
    assert len(snippets) == 23_703
    assert {snippet.domain for snippet in snippets} == {"product", "movie", "editorial", "tweet"}
    assert all(-4 <= snippet.rating <= 4 and snippet.text.strip() for snippet in snippets)
    assert snippets[0].text == "troubleshooting ad-2500 and ad-2600 no picture scrolling b/w."
