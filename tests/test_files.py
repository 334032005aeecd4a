"""A file is whole or absent, whatever happens while it is written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from variorum.errors import AccessError, OverBudget, VariorumError
from variorum.files import sweep, write_whole

CALLS = ("open", "fdopen", "fsync", "replace")


def _write_and_die(path: Path, at: int) -> int:
    """In a child, overwrite ``path`` and exit at the ``at``-th system call; returns the exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left = [at]

    def dying(call):
        def wrapped(*args, **kwargs):
            if left[0] == 0:
                os._exit(9)
            left[0] -= 1
            result = call(*args, **kwargs)
            if left[0] == 0:
                os._exit(9)
            left[0] -= 1
            return result

        return wrapped

    for name in CALLS:
        setattr(os, name, dying(getattr(os, name)))
    write_whole(path, b"new " * 1000)
    os._exit(0)


def test_a_kill_before_or_after_any_call_leaves_the_old_file_or_the_new_one(tmp_path: Path):
    path = tmp_path / "result"
    outcomes = []
    for at in range(40):
        path.write_bytes(b"old")
        status = _write_and_die(path, at)
        outcomes.append(path.read_bytes() == b"new " * 1000)
        assert outcomes[-1] or path.read_bytes() == b"old"
        sweep(tmp_path)
        assert os.listdir(tmp_path) == ["result"]
        if status == 0:
            break
    else:
        pytest.fail("the write never ran to its end")
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert len(outcomes) > 8


@pytest.mark.parametrize(
    ("said", "kind"), [(errno.ENOSPC, OverBudget), (errno.EFBIG, OverBudget), (errno.EACCES, AccessError)]
)
@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_a_refusal_leaves_the_old_file_and_says_what_kind_it_is(
    call: str, said: int, kind: type[VariorumError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(*args: object, **kwargs: object) -> None:
        raise OSError(said, os.strerror(said))

    path = tmp_path / "result"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, call, refused)
    with pytest.raises(kind, match=r"3 bytes cannot be written .*; elsewhere"):
        write_whole(path, b"new", remedy="elsewhere")
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["result"]
