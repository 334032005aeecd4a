"""No item that was put is lost and none is there twice, whoever writes at once and whenever somebody is killed."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from variorum.errors import DamagedFile, NotFound, OverBudget
from variorum.tasks.queue import Queue, identity, undecided

ITEMS = [{"id": str(i), "text": f"text {i} – „ü“\n", "confidence": 0.5} for i in range(6)]


def test_what_is_there_is_not_put_again(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "deep" / "queue.jsonl")
    assert queue.put(ITEMS[:4]) == 4
    assert queue.put([*ITEMS[2:], ITEMS[5]]) == 2
    assert queue.rows() == ITEMS
    assert queue.put(ITEMS) == 0


def test_an_item_without_an_id_is_known_by_what_it_holds(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "queue.jsonl")
    assert queue.put([{"text": "a", "n": 1}, {"n": 1, "text": "a"}, {"text": "b"}]) == 2
    assert queue.put([{"text": "a", "n": 1}]) == 0
    assert [row["id"] for row in queue.rows()] == [identity({"text": "a", "n": 1}), identity({"text": "b"})]


def test_answers_are_taken_back_and_the_last_one_counts(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "queue.jsonl")
    queue.put(ITEMS)
    queue.answer({"1": "spam", "3": "ham"})
    queue.answer({"1": "ham"})
    assert [(row["id"], row["label"]) for row in queue.answered()] == [("1", "ham"), ("3", "ham")]
    assert [row["id"] for row in queue.waiting()] == ["0", "2", "4", "5"]
    assert queue.answered()[0]["text"] == ITEMS[1]["text"]
    assert queue.put(ITEMS) == 0  # and what comes again takes no answer away
    assert len(queue.answered()) == 2
    with pytest.raises(NotFound):
        queue.answer({"7": "spam"})


def test_rows_that_are_left_to_people_become_items(tmp_path: Path) -> None:
    rows = [
        {"mail": "a", "text": "sure", "label": "ham", "confidence": 0.9, "abstained": False},
        {"mail": "b", "text": "unsure", "label": None, "confidence": 0.6, "abstained": True},
        {"mail": "c", "text": "", "error": "line 4: empty text"},
    ]
    assert undecided(rows, "mail") == [{"mail": "b", "text": "unsure", "confidence": 0.6, "id": "b"}]
    queue = Queue(tmp_path / "queue.jsonl")
    assert queue.put(undecided(rows)) == 1
    rows[1]["confidence"] = 0.61  # another model, the same row
    assert queue.put(undecided(rows)) == 0
    assert len(queue.waiting()) == 1


def test_a_label_written_into_the_file_by_hand_counts(tmp_path: Path) -> None:
    path = tmp_path / "queue.jsonl"
    path.write_text('{"id": 7, "text": "a", "label": "spam"}\n\n{"id": "8", "text": "b"}')  # and no end of line
    queue = Queue(path)
    assert [row["id"] for row in queue.answered()] == ["7"]
    assert queue.put([{"id": "8", "text": "b"}, {"id": "9", "text": "c"}]) == 1
    assert [row["id"] for row in queue.rows()] == ["7", "8", "9"]


def test_another_file_is_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "queue.jsonl"
    for content, line in (('{"id": "1"}\nnot JSON\n{"id": "2"}\n', 2), ("[1]\n", 1), ('{"text": "no id"}\n', 1)):
        path.write_text(content)
        with pytest.raises(DamagedFile, match=f"line {line}"):
            Queue(path).put(ITEMS)
        assert path.read_text() == content
    with pytest.raises(NotFound):
        Queue(tmp_path / "absent").rows()


def _put(path: Path, begin: int) -> None:
    for size in range(1, 30):
        Queue(path).put([{"id": f"{i}", "text": "long " * 200} for i in range(begin, begin + size)])


def test_many_writers_at_once_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    path = tmp_path / "queue.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_put, args=(path, 10 * number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert sorted(ids, key=int) == [str(i) for i in range(59)]


def test_a_full_disk_leaves_the_queue_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(tmp_path / "queue.jsonl")
    queue.put(ITEMS[:2])
    whole, write = queue.path.read_bytes(), os.write

    def half(file: int, content: bytes) -> int:
        if len(content) < 20:
            raise OSError(28, "No space left on device")
        return write(file, content[: len(content) // 2])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OverBudget, match="No space"):
        queue.put(ITEMS)
    monkeypatch.undo()
    assert queue.path.read_bytes() == whole
    assert queue.put(ITEMS) == 4
