"""A writer of the queue that is killed at any moment, also within a write, loses nothing and doubles nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.test_kill import KILLED, killed_at
from variorum.tasks.queue import Queue

BEFORE = [{"id": f"a{i}", "text": "was there"} for i in range(3)]
PUT = [{"id": f"b{i}", "text": "ümläut " * 5} for i in range(4)]


def whole(path: Path) -> list[str]:
    """The ids in the file, which holds whole lines only."""
    content = path.read_text("utf-8")
    assert content.endswith("\n")
    return [json.loads(line)["id"] for line in content.splitlines()]


@pytest.mark.mechanism("X")
@pytest.mark.parametrize("exists", [True, False])
def test_after_a_kill_at_any_moment_the_same_call_ends_the_work(tmp_path: Path, exists: bool) -> None:
    wanted = [row["id"] for row in ([*BEFORE, *PUT] if exists else PUT)]
    moments = 0
    while True:
        path = tmp_path / str(moments) / "queue.jsonl"
        queue = Queue(path)
        if exists:
            queue.put(BEFORE)
        if not killed_at(moments, lambda queue=queue: queue.put(PUT)):  # type: ignore[misc]
            break
        queue.put(PUT)
        assert whole(path) == wanted
        moments += 1
    assert moments > 8  # open, lock, write, two syncs, close, before and after each


@pytest.mark.mechanism("X")
def test_after_a_kill_in_the_middle_of_a_write_the_half_line_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "queue.jsonl"
    Queue(path).put(BEFORE)
    begun = path.read_bytes()
    length = len("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in PUT).encode())
    for written in range(length + 1):
        path.write_bytes(begun)
        assert ended_after(written, lambda: Queue(path).put(PUT)) == KILLED
        kept = [row["id"] for row in Queue(path).rows()]  # readable at once, without a writer
        assert kept[:3] == ["a0", "a1", "a2"]
        Queue(path).put(PUT)
        assert whole(path) == [*(row["id"] for row in BEFORE), *(row["id"] for row in PUT)]


def ended_after(written: int, work: Callable[[], object]) -> int:
    """Do ``work`` in a child that dies when it has written so many bytes; how the child ended."""
    child = os.fork()
    if not child:
        write = os.write

        def cut(file: int, content: bytes) -> int:
            write(file, content[:written])
            os._exit(KILLED)

        os.write = cut  # type: ignore[assignment]
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
