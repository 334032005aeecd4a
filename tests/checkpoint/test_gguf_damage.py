"""A damaged GGUF file ends in one line that names it, at once and in little memory, whatever is wrong with it."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest

import variorum
from tests.checkpoint import ggufs
from tests.checkpoint.test_gguf import WRITERS
from tests.faults import children
from tests.tools.command import refused
from variorum.checkpoint.gguf_header import MAX_ITEMS, read_header
from variorum.errors import DamagedFile, NotFound

CASES = 240


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A whole file: a tiny LLaMA with eight-bit blocks and a tokenizer."""
    kind, arch, config = WRITERS["llama"]
    model = ggufs.oracle_model(kind, {**config, "hidden_size": 96, "intermediate_size": 64, "num_hidden_layers": 2})
    q8 = gguf.GGMLQuantizationType.Q8_0
    path = ggufs.write(
        tmp_path_factory.mktemp("sound") / "model.gguf", model, arch, extra=ggufs.add_tokens,
        kind_of=lambda name: ggufs.F32 if "norm" in name else q8,
    )  # fmt: skip
    return path.read_bytes()


def header_length(content: bytes, path: Path) -> int:
    """Where the data of the tensors begins."""
    path.write_bytes(content)
    return min(entry.begin for entry in read_header(path).tensors.values())


def last_byte(content: bytes, path: Path) -> int:
    """Where the last byte of the last tensor is; only padding comes after it."""
    path.write_bytes(content)
    return max(entry.end for entry in read_header(path).tensors.values()) - 1


def damaged(content: bytes, case: int, data: int) -> bytes:
    """One of eight kinds of damage, by the case's number."""
    chance = random.Random(case)
    header, anywhere = chance.randrange(data), chance.randrange(len(content))

    def flipped(place: int) -> bytes:
        return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]

    kinds: list[Callable[[], bytes]] = [
        lambda: content[:header],
        lambda: content[:anywhere],
        lambda: flipped(header),
        lambda: flipped(chance.randrange(32)),
        lambda: content[:header] + struct.pack("<Q", 2 ** chance.randrange(20, 64) - 1) + content[header + 8 :],
        lambda: content[:header] + chance.randbytes(16) + content[header + 16 :],
        lambda: content[:header] + content[header + chance.randrange(1, 9) :],
        lambda: chance.randbytes(min(len(content), 4096)),
    ]
    return kinds[case % len(kinds)]()


@pytest.mark.case("V025")
def test_damage_of_every_kind_is_refused_in_one_line_or_changes_nothing_that_can_be_seen(
    tmp_path: Path, sound: bytes
) -> None:
    data = header_length(sound, tmp_path / "whole.gguf")
    good = variorum.load(tmp_path / "whole.gguf")
    shapes = {name: tuple(value.shape) for name, value in good.named_tensors()}
    path = tmp_path / "model.gguf"
    refusals = 0
    for case in range(CASES):
        path.write_bytes(damaged(sound, case, data))

        def load() -> str:
            model = variorum.load(path)
            return str({name: tuple(value.shape) for name, value in model.named_tensors()} == shapes)

        outcome = children.run(load)
        assert outcome.kind in ("returned", "DamagedFile", "NotFound"), (case, outcome)
        assert outcome.printed == "" and outcome.line.isprintable() and len(outcome.line) < 2000, (case, outcome)
        if outcome.kind == "returned":
            # A flipped bit in a weight, a word or a score is a value like any other: nothing is hashed in this format.
            assert outcome.line == "True" or case % 8 in (2, 3, 4, 5), (case, outcome)
        else:
            refusals += 1
            assert str(path) in outcome.line, (case, outcome)
            assert outcome.exit_code in (3, 7)
    assert refusals > CASES // 2


@pytest.mark.case("V025")
def test_a_file_cut_anywhere_is_never_loaded(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "model.gguf"
    for cut in (0, 3, 23, 24, 100, len(sound) // 2, last_byte(sound, path)):
        path.write_bytes(sound[:cut])
        with pytest.raises(DamagedFile):
            variorum.load(path)


def test_the_command_says_one_line_and_ends_with_seven(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(sound[: last_byte(sound, path)])
    assert "cut: tensor" in refused("generate", str(path), "a", code=7)
    assert "no such file" in refused("generate", str(tmp_path / "none.gguf"), "a", code=3)
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert "is not a GGUF file" in refused("show", str(path), code=7)


def written(path: Path, *, keys: int = 0, tensors: int = 0, body: bytes = b"", version: int = 3) -> Path:
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + body + bytes(64))
    return path


def key(name: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + value


def tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return struct.pack("<Q", len(name)) + name.encode() + axes + struct.pack("<IQ", kind, offset)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ({"version": 1}, "version 1"),
        ({"version": 3 << 24}, "big-endian"),
        ({"tensors": 10**12}, "claims 1,000,000,000,000 tensors"),
        ({"keys": 1, "body": key("a", 9, struct.pack("<IQ", 4, MAX_ITEMS + 1))}, "an array of"),
        ({"keys": 1, "body": key("a", 9, struct.pack("<IQ", 8, 4_000_000))}, "cut inside its header"),
        ({"keys": 1, "body": key("a", 8, struct.pack("<Q", 2**63))}, "a text of"),
        ({"keys": 1, "body": key("a", 99, b"")}, "unknown type 99"),
        ({"keys": 1, "body": key("a", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQ", 9, 1) * 50)}, "unknown type 9"),
        ({"keys": 2, "body": key("a", 4, bytes(4)) * 2}, "occurs twice"),
        ({"keys": 1, "body": key("general.alignment", 4, struct.pack("<I", 7))}, "alignment of 7"),
        ({"tensors": 1, "body": tensor("t", (2**62, 2**62))}, "cut: tensor"),
        ({"tensors": 1, "body": tensor("t", (4,), kind=4)}, "unknown type 4"),
        ({"tensors": 1, "body": tensor("t", (31,), kind=2)}, "blocks of 32"),
        ({"tensors": 1, "body": tensor("t", (1,) * 5)}, "5 axes"),
        ({"tensors": 1, "body": tensor("t", (4,), offset=1)}, "not aligned"),
        ({"tensors": 2, "body": tensor("t", (4,)) + tensor("u", (4,))}, "overlaps another"),
        ({"tensors": 2, "body": tensor("t", (4,)) + tensor("t", (4,), offset=32)}, "occurs twice"),
    ],
)  # fmt: skip
def test_each_claim_that_the_bytes_do_not_bear_out_is_refused(tmp_path: Path, what: dict[str, int], says: str) -> None:
    with pytest.raises(DamagedFile, match=says):
        read_header(written(tmp_path / "model.gguf", **what))  # type: ignore[arg-type]


def test_an_architecture_that_is_not_known_is_named_with_those_that_are(tmp_path: Path) -> None:
    name = b"starcoder"
    body = key("general.architecture", 8, struct.pack("<Q", len(name)) + name)
    with pytest.raises(NotFound, match=r"'starcoder' is not known; known: llama, qwen2, qwen3, gemma"):
        variorum.load(written(tmp_path / "model.gguf", keys=1, body=body))


def test_blocks_that_are_not_finite_are_refused(tmp_path: Path, sound: bytes) -> None:
    path = tmp_path / "model.gguf"
    data = header_length(sound, path)
    entry = next(one for one in read_header(path).tensors.values() if one.kind == "Q8_0")
    path.write_bytes(sound[: entry.begin] + b"\x00\x7c" + sound[entry.begin + 2 :])  # a scale of infinity
    assert entry.begin >= data
    outcome = children.run(lambda: variorum.load(path))
    assert outcome.kind == "DamagedFile" and "not finite" in outcome.line and outcome.printed == ""
