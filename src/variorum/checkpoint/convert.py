"""From weights in torch's pickled format to a published directory with safetensors, where nobody vouches for them.

The pickle is opened in a child process with limits (:mod:`.unpickle`); what comes back is a safetensors file, which is
checked like any other. The directory appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from safetensors import safe_open
from torch import Tensor

from variorum.checkpoint import unpickle
from variorum.checkpoint.header import read_header
from variorum.checkpoint.paths import existing_directory, is_plain, read_bytes, read_json, regular_file
from variorum.checkpoint.source import GENERATION
from variorum.checkpoint.writing import write_directory
from variorum.errors import AccessError, DamagedFile, NotFound, UsageError

SINGLE, INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
ENDINGS = (".bin", ".pt", ".pth", ".ckpt")
REMEDY = "get model.safetensors from its publisher; nothing was written"
WALL_FACTOR = 3  # of the processor time that the child may take: the machine may be busy


@dataclasses.dataclass(frozen=True)
class Converted:
    """What was written: where, how many tensors, and their bytes."""

    directory: str
    tensors: int
    bytes: int


def from_pickle(source: Path, target: Path) -> Converted:
    """Read a ``.bin`` and write the published directory of the same model: its names, values, config and tokenizer.

    Args:
        source: a directory with ``pytorch_model.bin`` (or its shards and their index), or such a file in one.
        target: where; absent, empty, or an earlier save of ours.

    Raises:
        NotFound: no such file, or no ``config.json`` beside it.
        DamagedFile: the pickle holds anything but named tensors, is damaged, or takes more than a file of its size may.
        UsageError, OverBudget, AccessError: as :func:`variorum.checkpoint.writing.write_directory`.
    """
    home = source if source.is_dir() else source.parent
    inputs = _inputs(source)
    others = _others(home)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.reading-") as scratch:
        _run(Path(scratch), inputs)
        with _opened(sorted(Path(scratch).glob("*.safetensors")), inputs) as tensors:
            write_directory(target, tensors, others)
            size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
            return Converted(str(target), len(tensors), size)


def _inputs(source: Path) -> list[Path]:
    """The pickled files of a model, in the order of its index."""
    if source.is_file():
        if source.suffix not in ENDINGS:
            raise UsageError("is not a pickled checkpoint", where=str(source), remedy=f"one ends in {ENDINGS[0]}")
        return [source]
    home = existing_directory(source)
    if (home / INDEX).is_file():
        listed = read_json(home / INDEX).get("weight_map")
        if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
            raise DamagedFile("has no weight_map from tensors to files", where=str(home / INDEX))
        return [regular_file(home, name) for name in sorted(set(listed.values()))]
    if (home / SINGLE).is_file():
        return [regular_file(home, SINGLE)]
    found = sorted(path for path in home.iterdir() if path.suffix in ENDINGS)
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise NotFound(f"no {SINGLE} (found: {names})", where=str(home), remedy="name the file")
    return [regular_file(home, found[0].name)]


def _others(home: Path) -> dict[str, bytes]:
    """The config, the tokenizer and what else a directory says about its model."""
    from variorum.text.directory import OTHER_FILES, PIECE_FILES, SIDE_FILES

    if not (home / "config.json").is_file():
        raise NotFound("no config.json beside the weights", where=str(home), remedy="put the model's config.json there")
    read_json(home / "config.json")
    named = (GENERATION, "preprocessor_config.json", *SIDE_FILES, *OTHER_FILES, *PIECE_FILES)
    found = {"config.json": read_bytes(home / "config.json")}
    for path in sorted(home.iterdir()):
        if path.name in named or re.fullmatch(r"LICENSE(\.\w+)?", path.name):
            found[path.name] = _bytes(path)
    return {name: content for name, content in found.items() if is_plain(name)}


def _bytes(path: Path) -> bytes:
    from variorum.text.guard import MAX_BYTES

    return read_bytes(path, MAX_BYTES)


def _run(scratch: Path, inputs: Sequence[Path]) -> None:
    """Read the pickles in a child that gets nothing of this process but their names."""
    size = sum(path.stat().st_size for path in inputs)
    command = [sys.executable, "-I", "-B", unpickle.__file__, str(scratch), *(str(path.resolve()) for path in inputs)]
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "LANG") if name in os.environ}
    seconds = WALL_FACTOR * (unpickle.SECONDS + size // unpickle.BYTES_PER_SECOND)
    try:
        done = subprocess.run(
            command, env=kept | {"OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise DamagedFile(f"takes more than {seconds:,} s to read", where=str(inputs[0]), remedy=REMEDY) from None
    if done.returncode == 0:
        return
    where = str(inputs[0]) if len(inputs) == 1 else str(inputs[0].parent)
    last = (done.stderr.decode(errors="replace").strip().splitlines() or [""])[-1]
    if done.returncode == unpickle.REFUSED:
        raise DamagedFile(f"is not a file of tensors ({last[:300]})", where=where, remedy=REMEDY)
    ended = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit {done.returncode}"
    raise DamagedFile(f"cannot be read within its limits ({ended} {last[:200]})".rstrip(), where=where, remedy=REMEDY)


@contextlib.contextmanager
def _opened(files: Sequence[Path], inputs: Sequence[Path]) -> Iterator[Mapping[str, Tensor]]:
    """The tensors that the child wrote, mapped."""
    with contextlib.ExitStack() as stack:
        found: dict[str, Tensor] = {}
        for path, origin in zip(files, inputs, strict=True):
            names = read_header(path)
            handle = stack.enter_context(safe_open(path, framework="pt"))
            twice = next((name for name in names if name in found), None)
            if twice is not None:
                raise DamagedFile(f"tensor {twice[:80]!r} is in two files", where=str(origin))
            found |= {name: handle.get_tensor(name) for name in names}
        yield found


__all__ = ["AccessError", "Converted", "from_pickle"]
