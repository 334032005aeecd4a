"""A result has a row for every row of its source, in order, whatever the source holds."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from variorum.errors import AccessError, DamagedFile, NotFound, OverBudget, UsageError, VariorumError
from variorum.tasks.table import ERROR, read, writable, write

EXPORT = (
    b"\xef\xbb\xbftext,label\r\n"
    b'"good, really",pos\r\n'
    b'"she said ""no""",neg\r\n'
    b'"two\r\nlines",pos\r\n'
    b",neg\r\n"
    b"alone\r\n"
    b"\r\n"
)


@pytest.mark.case("V053")
def test_every_row_of_an_export_keeps_its_place_and_the_bad_ones_say_why(tmp_path: Path) -> None:
    (tmp_path / "export.csv").write_bytes(EXPORT)
    table = read(tmp_path / "export.csv", ["text", "label"])
    assert [row.line for row in table.rows] == [2, 3, 4, 6, 7]
    assert [row.error for row in table.rows] == ["", "", "", "empty text", "1 cell for 2 columns"]
    assert table.column("text") == ["good, really", 'she said "no"', "two\r\nlines"]
    said: list[str] = []
    table.tell(said.append)
    assert said == [
        f"{tmp_path}/export.csv, line 6: empty text",
        f"{tmp_path}/export.csv, line 7: 1 cell for 2 columns",
    ]


@pytest.mark.case("V053")
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "csv.gz", "jsonl.gz"])
def test_answers_go_back_to_their_rows_and_the_count_stays(tmp_path: Path, ending: str) -> None:
    (tmp_path / "export.csv").write_bytes(EXPORT)
    table = read(tmp_path / "export.csv", ["text"])
    answers = [{"label": "x", "score": np.float32(0.5)}, {"label": "y", "score": 0.25}, {"label": "z", "score": 1.0}]
    write(tmp_path / f"out.{ending}", table.answered(answers))
    back = read(tmp_path / f"out.{ending}", filled=[])
    assert back.columns == ("text", "label", "predicted_label", "score", ERROR)
    assert [(row.cells["text"], row.cells["predicted_label"], row.cells["score"]) for row in back.rows] == [
        ("good, really", "x", "0.5"),
        ('she said "no"', "y", "0.25"),
        ("two\r\nlines", "z", "1.0"),
        ("", "", ""),
        ("", "", ""),
    ]
    assert [row.cells[ERROR] for row in back.rows] == [
        "", "", "", "line 6: empty text", "line 7: 1 cell for 2 columns"
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    with pytest.raises((ValueError, StopIteration)):
        table.answered(answers[:2] + answers)


def test_a_thousand_torn_rows_are_neither_lost_nor_shifted(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines, right = ["id,text"], []
    for i in range(1000):
        kind = rng.integers(5)
        lines.append([f'{i},"a ""b"", {i}"', f"{i}", f"{i},x,y", f'{i},"say "no" to"', f"{i},"][kind])
        right.append(f'a "b", {i}' if kind == 0 else "")
    (tmp_path / "a.csv").write_text("\n".join(lines))
    table = read(tmp_path / "a.csv", ["text"])
    assert [row.line for row in table.rows] == list(range(2, 1002))
    assert [row.cells.get("text", "") for row in table.rows] == right
    assert [bool(row.error) for row in table.rows] == [not text for text in right]


def test_cells_stay_as_they_were_written(tmp_path: Path) -> None:
    words = ["NA", "null", "None", "nan", "1.50", "007", "1e5", "TRUE", "", " padded ", "a\x00b"]
    (tmp_path / "a.csv").write_text("text,n\n" + "".join(f"{word},1\n" for word in words))
    assert read(tmp_path / "a.csv", filled=[]).column("text") == words
    (tmp_path / "a.jsonl").write_text(
        '{"n": 1.50, "i": 12345678901234567890123, "w": [1.0, "a"], "t": true, "z": null}'
    )
    assert read(tmp_path / "a.jsonl").rows[0].cells == {
        "n": "1.50", "i": "12345678901234567890123", "w": '[1.0, "a"]', "t": "true", "z": ""
    }  # fmt: skip
    write(tmp_path / "b.jsonl", [{"text": word} for word in words])
    assert read(tmp_path / "b.jsonl", filled=[]).column("text") == words


def test_json_lines_that_are_no_rows_say_why(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "a"}\n{"text": "b", "text": "c"}\n[1]\n7\n"a\n{"text": "\\ud800"}\n' + "[" * 9999
    )
    table = read(tmp_path / "a.jsonl", ["text"])
    assert [row.error.partition(" (")[0] for row in table.rows] == [
        "", "a key occurs twice", "not an object but list", "not an object but number", "not JSON",
        "half a surrogate pair, which is no character", "not JSON",
    ]  # fmt: skip


def test_parquet_holds_text_numbers_lists_and_nothing(tmp_path: Path) -> None:
    columns = {"text": ["a", None, "é\u2028"], "n": [1, 2, None], "words": [["x"], [], ["y", "z"]]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = read(tmp_path / "a.parquet", ["text"])
    assert [row.error for row in table.rows] == ["", "empty text", ""]
    assert table.rows[2].cells == {"text": "é\u2028", "n": "", "words": '["y", "z"]'}
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", "b"], "raw": [b"\xff", None]}), tmp_path / "b.parquet")
    assert [row.error for row in read(tmp_path / "b.parquet").rows] == ["raw holds bytes, not text", ""]


def test_a_cell_of_a_megabyte_and_a_file_of_one_row_are_nothing_special(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('text,label\n"' + "long, " * 200_000 + '",x\n')
    table = read(tmp_path / "a.csv", ["text", "label"])
    assert len(table.rows) == 1 and len(table.column("text")[0]) == 1_200_000
    write(tmp_path / "b.csv", table.answered([{"score": 1}]))
    assert read(tmp_path / "b.csv").column("text") == table.column("text")


@pytest.mark.parametrize(
    ("name", "content", "kind", "said"),
    [
        ("a.csv", b"", DamagedFile, "empty file"),
        ("a.txt", b"", DamagedFile, "empty file"),
        ("a.csv", b"text,label\n", DamagedFile, "has a header and no row"),
        ("a.csv", b"text,label,text\na,b,c\n", DamagedFile, "column 'text' occurs twice"),
        ("a.csv", b"Text,label\na,b\n", NotFound, "no column 'text' among Text, label; did you mean Text?"),
        ("a.csv", b'text,label\nx,1\n"open,1\ny,1\n', DamagedFile, "from line 3: a quote is never closed"),
        ("a.csv", "text,label\na,b\n".encode("utf-16"), DamagedFile, "this is UTF-16; save it as UTF-8"),
        ("a.tsv", "text\tlabel\na\tb\n".encode("utf-16-le"), DamagedFile, "this is UTF-16; save it as UTF-8"),
        ("a.csv", "text\ncafé\n".encode("latin-1"), DamagedFile, "line 2: not UTF-8 at byte 8"),
        ("a.jsonl", b"[1]\n", DamagedFile, "no line is a JSON object; line 1: not an object but list"),
        ("a.parquet", b"PAR1", DamagedFile, "no Parquet that can be read"),
        ("a.csv.gz", gzip.compress(b"text\na\n", mtime=0)[:-9], DamagedFile, "broken gzip"),
        ("a.docx", b"PK", UsageError, "cannot read rows from .docx; use .csv, .tsv, .jsonl, .txt, .parquet"),
        ("absent.csv", None, NotFound, "no such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(
    tmp_path: Path, name: str, content: bytes | None, kind: type[VariorumError], said: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind) as caught:
        read(tmp_path / name, ["text"])
    assert said in str(caught.value) and name in str(caught.value)


class Piped(io.TextIOWrapper):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"one\r\n\r\nthree\n", ["one", "", "three"]),
        (b'\xef\xbb\xbf{"text": "one"}\n{"text": ""}\n{"text": "three"}', ["one", "", "three"]),
        (b'id,text\n1,one\n2,\n3,"three"\n', ["one", "", "three"]),
        (b"text\tid\none\t1\n\t2\nthree\t3\n", ["one", "", "three"]),
        (b"so text, they say\n\nis a column\n", ["so text, they say", "", "is a column"]),
    ],
)
def test_stdin_is_what_it_looks_like(monkeypatch: pytest.MonkeyPatch, content: bytes, texts: list[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Piped(content))
    table = read("-", ["text"])
    assert [row.cells["text"] for row in table.rows] == texts
    assert [row.error for row in table.rows] == ["", "empty text", ""]


def test_stdin_without_the_columns_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Piped(b"one\ntwo\n"))
    with pytest.raises(UsageError, match="its first line does not name question, context"):
        read("-", ["question", "context"])


def test_a_text_is_no_formula_in_a_spreadsheet_and_a_number_stays_one(tmp_path: Path) -> None:
    given = [
        {"text": "=1+1", "n": "-5", "s": -0.5},
        {"text": "@x", "n": "+1.5e3", "s": 1},
        {"text": "-5", "n": "", "s": 2},
    ]
    write(tmp_path / "a.csv", given)
    assert (tmp_path / "a.csv").read_bytes() == b"text,n,s\r\n'=1+1,-5,-0.5\r\n'@x,+1.5e3,1\r\n'-5,,2\r\n"
    write(tmp_path / "a.jsonl", given)
    assert [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()] == given


@pytest.mark.parametrize("text", ["a\rb", "a\nb", '"', ",", "\t", "", " x ", "\ufeffx", "\x00", "\u2028"])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_what_is_written_is_read_again(tmp_path: Path, text: str, ending: str) -> None:
    write(tmp_path / f"a.{ending}", [{"text": f"x{text}", "b": text}, {"text": "end", "b": "end"}])
    back = read(tmp_path / f"a.{ending}")
    spreadsheet = ending in ("csv", "tsv") and text.startswith(("\t", "\r"))
    assert [dict(row.cells) for row in back.rows] == [
        {"text": f"x{text}", "b": f"'{text}" if spreadsheet else text}, {"text": "end", "b": "end"}
    ]  # fmt: skip


def test_a_result_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.csv"
    target.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OverBudget, match="No space left"):
        write(target, [{"text": "a"}])
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_place_where_nothing_can_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write rows as \.txt"):
        writable(tmp_path / "a.txt")
    with pytest.raises(AccessError, match="there is no such folder"):
        writable(tmp_path / "none" / "a.csv")
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(AccessError, match="cannot be written"):
        write(tmp_path / "a.csv", [{"a": 1}])
