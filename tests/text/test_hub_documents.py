"""Documents of a data set on the Hub: rows as ``datasets`` streams them, and one line with a remedy where it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from variorum.errors import NotFound, UsageError
from variorum.text.stream import Source

TOLD = """
import sys
from variorum.errors import VariorumError
from variorum.text.stream import Source
for place in sys.argv[1:]:
    try:
        print("|".join(Source(place=place).documents()))
    except VariorumError as error:
        print(error.exit_code, error)
"""


def package(monkeypatch, rows: Any) -> list[tuple[Any, ...]]:
    """A ``datasets`` that gives ``rows``, or raises them; what it is asked for."""
    asked: list[tuple[Any, ...]] = []

    def load_dataset(name: str, config: str | None, *, split: str, streaming: bool) -> Iterator[dict[str, Any]]:
        asked.append((name, config, split, streaming))
        if isinstance(rows, Exception):
            raise rows
        return iter(rows)

    module = types.ModuleType("datasets")
    monkeypatch.setattr(module, "load_dataset", load_dataset, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", module)
    return asked


@pytest.mark.parametrize(
    ("place", "asked"),
    [
        ("hf:org/name", ("org/name", None, "train", True)),
        ("hf:org/name@test", ("org/name", None, "test", True)),
        ("hf:org/name:en@test[:10]", ("org/name", "en", "test[:10]", True)),
    ],
)
def test_the_configuration_and_the_split_are_said_in_the_place(place, asked, monkeypatch) -> None:
    seen = package(monkeypatch, [{"text": "one"}, {"text": " "}, {"text": "two"}])
    assert list(Source(place=place).documents()) == ["one", "two"]
    assert seen == [asked]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([{"body": "one"}], "hf:org/name: no text 'text' among body; name one with --column"),
        ([{"text": 3}], "no text 'text' among text"),
        (ConnectionError("Couldn't reach 'org/name' on the Hub"), "the Hub is not reached .*go online, or give"),
        (
            ValueError("Bad split: x. Available splits: ['train']\nmore"),
            r"Bad split: x. Available splits: \['train'\];",
        ),
        (FileNotFoundError("Dataset 'org/name' doesn't exist"), "doesn't exist"),
    ],
)
def test_what_is_not_there_is_one_line_with_the_remedy(rows, line, monkeypatch) -> None:
    package(monkeypatch, rows)
    with pytest.raises(NotFound, match=line) as found:
        list(Source(place="hf:org/name").documents())
    assert "\n" not in str(found.value)


def test_without_the_package_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"pip install 'variorum\[hub\]'"):
        list(Source(place="hf:org/name").documents())


def test_the_real_package_reads_a_local_data_set_offline_and_refuses_what_is_not_here(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    folder = tmp_path / "org" / "name"
    folder.mkdir(parents=True)
    for split, count in (("train", 3), ("test", 2)):
        rows = [json.dumps({"text": f"{split} {i}"}) for i in range(count)]
        (folder / f"{split}.jsonl").write_text("\n".join(rows) + "\n")
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache")}
    places = ["hf:org/name", "hf:org/name@test", "hf:org/name@other", "hf:org/absent"]
    line = [sys.executable, "-c", TOLD, *places]
    done = subprocess.run(line, capture_output=True, text=True, env=env, cwd=tmp_path)
    train, test, other, absent = done.stdout.splitlines()
    assert (train, test) == ("train 0|train 1|train 2", "test 0|test 1")
    assert other.startswith("3 hf:org/name@other: Bad split: other.")
    assert absent.startswith("3 hf:org/absent: the Hub is not reached") and "go online" in absent
