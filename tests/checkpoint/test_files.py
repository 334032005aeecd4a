"""What is opened is what its header, its length and its index all say it is; everything else is refused in one line."""

from __future__ import annotations

import gc
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.parity.case import materialise
from tests.parity.tiny import named
from variorum.checkpoint import load
from variorum.checkpoint.files import TensorFiles, check_finite, read_json, write_directory
from variorum.errors import AccessError, DamagedFile, NotFound

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def two_tensors() -> dict[str, torch.Tensor]:
    return {"a.weight": torch.arange(12.0).reshape(3, 4), "b.bias": torch.arange(4, dtype=torch.bfloat16)}


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A directory as others publish it: one file, no manifest."""
    save_file(two_tensors(), tmp_path / SINGLE, {"format": "pt"})
    return tmp_path


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Two shards and their index, no manifest."""
    place = tmp_path / "sharded"
    write_directory(place, two_tensors(), {}, max_shard_bytes=48)
    (place / "variorum-manifest.json").unlink()
    return place


def refused(directory: Path, kind: type[Exception] = DamagedFile) -> str:
    with pytest.raises(kind) as caught:
        TensorFiles(directory)
    line = str(caught.value)
    assert line.isprintable(), "one line, nothing that a terminal would act on"
    assert len(line) < 1000
    return line


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any], data: bytes | None = None) -> None:
    """Change the header of a file and leave its data, or replace that too."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    changed = change(header)
    text = changed if isinstance(changed, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + (content[8 + length :] if data is None else data))


def test_names_shapes_types_and_values_are_those_of_the_file(published: Path) -> None:
    with TensorFiles(published) as found:
        assert found.shapes == {"a.weight": (3, 4), "b.bias": (4,)}
        assert found.dtypes == {"a.weight": "F32", "b.bias": "BF16"}
        for name, tensor in two_tensors().items():
            assert torch.equal(found.get(name), tensor)
            assert found.get(name).dtype == tensor.dtype
            assert found.file_of(name) == published / SINGLE


def test_shards_read_as_one_and_any_single_safetensors_file_is_the_model(sharded: Path, tmp_path: Path) -> None:
    assert len(list(sharded.glob("*.safetensors"))) == 2
    with TensorFiles(sharded) as found:
        assert all(torch.equal(found.get(name), tensor) for name, tensor in two_tensors().items())
    alone = tmp_path / "alone"
    alone.mkdir()
    save_file(two_tensors(), alone / "weights.safetensors")
    assert set(TensorFiles(alone).shapes) == set(two_tensors())


def test_a_tensor_is_the_mapped_file_and_writing_to_it_leaves_the_file_alone(published: Path) -> None:
    before = (published / SINGLE).read_bytes()
    found = TensorFiles(published)
    first, again = found.get("a.weight"), found.get("a.weight")
    assert first.data_ptr() == again.data_ptr(), "no copy is made"
    found.close()
    del found, again
    gc.collect()
    first.add_(1)
    assert torch.equal(first, two_tensors()["a.weight"] + 1)
    assert (published / SINGLE).read_bytes() == before


@pytest.mark.case("V025")
def test_a_file_shorter_or_longer_than_its_header_says_is_refused_with_both_byte_counts(published: Path) -> None:
    path = published / SINGLE
    whole = path.read_bytes()
    size = len(whole)
    header = 8 + int.from_bytes(whole[:8], "little")
    for kept, expected in ((size - 8, size), (size - 1, size), (size // 2 + header // 2, size), (header, size)):
        path.write_bytes(whole[:kept])
        line = refused(published)
        assert (SINGLE in line, f"{expected:,} bytes" in line, f"found {kept:,}" in line) == (True, True, True), line
    path.write_bytes(whole[: header // 2])
    line = refused(published)
    assert f"at least {header:,} bytes, found {header // 2:,}" in line
    for kept in (0, 7):
        path.write_bytes(whole[:kept])
        assert f"at least 8 bytes, found {kept}" in refused(published)
    path.write_bytes(whole + b"\0" * 8)
    assert f"expected {size:,} bytes, found {size + 8:,}" in refused(published)


@pytest.mark.parametrize("length", [0, 1, 10**8 + 1, 2**63, 2**64 - 1])
def test_a_header_length_that_cannot_be_is_refused(published: Path, length: int) -> None:
    path = published / SINGLE
    path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])
    assert SINGLE in refused(published)


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["a.weight"].__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (_set("shape", [2**32, 2**32]), "takes 73,786,976,294,838,206,464 bytes"),
        (_set("shape", [3, 5]), "takes 60 bytes, its offsets give 48"),
        (_set("shape", [True, 12]), "valid shape"),
        (_set("shape", [3.0, 4]), "valid shape"),
        (_set("shape", [-3, -4]), "valid shape"),
        (_set("shape", [12] + [1] * 8), "valid shape"),
        (_set("shape", 12), "valid shape"),
        (_set("shape", [10**4000]), "valid shape"),
        (_set("dtype", "F16"), "takes 24 bytes"),
        (_set("dtype", "F31"), "unknown type 'F31'"),
        (_set("dtype", ["F32"]), "unknown type"),
        (_set("data_offsets", [0, 2**64]), "valid data_offsets"),
        (_set("data_offsets", [48, 0]), "its offsets give -48"),
        (_set("data_offsets", [8, 56]), "leaves a hole"),
        (_set("data_offsets", [True, 48]), "valid data_offsets"),
        (_set("data_offsets", [0]), "valid data_offsets"),
        (_set("extra", 1), "described by"),
        (lambda header: header["a.weight"].pop("dtype"), "described by"),
        (lambda header: header.__setitem__("c", dict(header["a.weight"])), "overlaps"),
        (lambda header: header.pop("b.bias"), "longer than its header says"),
        (lambda header: header.__setitem__("__metadata__", {"format": 1}), "__metadata__"),
        (lambda header: b"[]", "expected a JSON object"),
        (lambda header: b"   {}", "begin with {"),
        (lambda header: b'{"a": NaN}', "not valid JSON"),
        (lambda header: b'{"\xff": 1}', "UTF-8"),
        (lambda header: b'{"a":' * 200_000, "nested too deeply"),
        (lambda header: b'{"a":' + b"[" * 200_000, "nested too deeply"),
        (lambda header: b'{"a": %s}' % (b"9" * 5_000), "not valid JSON"),
    ],
)
def test_a_header_that_contradicts_itself_or_the_format_is_refused(
    published: Path, change: Callable[[dict[str, Any]], Any], cause: str
) -> None:
    rewrite(published / SINGLE, change)
    line = refused(published)
    assert cause in line
    assert SINGLE in line


def test_a_name_that_occurs_twice_or_too_many_names_are_refused(published: Path) -> None:
    entry = b'{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    rewrite(published / SINGLE, lambda _: b'{"x":%s,"x":%s}' % (entry, entry), data=b"")
    assert "'x' occurs twice" in refused(published)
    many = b",".join(b'"%d":%s' % (i, entry) for i in range(100_001))
    rewrite(published / SINGLE, lambda _: b"{" + many + b"}", data=b"")
    assert "at most 100,000 tensors" in refused(published)


def test_the_terminal_is_safe_from_names_in_a_file(published: Path) -> None:
    rewrite(published / SINGLE, lambda header: header.__setitem__("\x1b[2J\n\u202e" + "x" * 10_000, 1))
    assert "\\x1b[2J\\n\\u202e" in refused(published)


@pytest.mark.parametrize(
    "file",
    ["../outside.safetensors", "/etc/hostname", "sub/x.safetensors", "..", "", "x.bin", "C:\\x.safetensors",
     "con.safetensors", "x\0.safetensors", "a\nb.safetensors", " x.safetensors", "x" * 300 + ".safetensors", 3, None],
)  # fmt: skip
def test_an_index_may_name_only_plain_safetensors_files_beside_it(sharded: Path, file: object) -> None:
    save_file(two_tensors(), sharded.parent / "outside.safetensors")
    index = json.loads((sharded / INDEX).read_text())
    index["weight_map"]["a.weight"] = file
    (sharded / INDEX).write_text(json.dumps(index))
    assert INDEX in refused(sharded)


def test_the_index_and_its_shards_agree_on_every_tensor(sharded: Path) -> None:
    whole = json.loads((sharded / INDEX).read_text())
    files = sorted(set(whole["weight_map"].values()))

    def said(weight_map: object) -> str:
        (sharded / INDEX).write_text(json.dumps({**whole, "weight_map": weight_map}))
        return refused(sharded)

    assert "'ghost' is not in it" in said({**whole["weight_map"], "ghost": files[0]})
    assert "is not in it" in said(dict.fromkeys(whole["weight_map"], files[0]))
    assert "missing" in said({**whole["weight_map"], "a.weight": "model-00009-of-00009.safetensors"})
    assert "no weight_map" in said({})
    assert "no weight_map" in said([])
    save_file({"a.weight": torch.zeros(3, 4), "stray": torch.zeros(1)}, sharded / files[0])
    save_file({"b.bias": torch.zeros(4)}, sharded / files[1])
    assert "'stray' is not listed" in said({"a.weight": files[0], "b.bias": files[1]})
    (sharded / INDEX).unlink()
    assert f"2 safetensors files and no {INDEX}" in refused(sharded)


def test_links_may_lead_into_the_blobs_of_the_same_hub_repository_and_nowhere_else(tmp_path: Path) -> None:
    snapshot, blobs, elsewhere = (tmp_path / part for part in ("repo/snapshots/abc", "repo/blobs", "other"))
    for place in (snapshot, blobs, elsewhere):
        place.mkdir(parents=True)
    save_file(two_tensors(), blobs / "0123")
    (snapshot / SINGLE).symlink_to("../../blobs/0123")
    assert set(TensorFiles(snapshot).shapes) == set(two_tensors())
    (tmp_path / "by-link").symlink_to(snapshot)
    assert set(TensorFiles(tmp_path / "by-link").shapes) == set(two_tensors())

    save_file(two_tensors(), elsewhere / "0123")
    (snapshot / SINGLE).unlink()
    (snapshot / SINGLE).symlink_to(elsewhere / "0123")
    assert "outside of its directory" in refused(snapshot)
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / SINGLE).symlink_to(blobs / "0123")
    assert "outside of its directory" in refused(plain)
    (plain / SINGLE).unlink()
    (plain / SINGLE).symlink_to(SINGLE)
    assert "loop" in refused(plain)


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / SINGLE)  # opening it would wait for ever
    assert "not a regular file" in refused(tmp_path)
    (tmp_path / SINGLE).unlink()
    (tmp_path / SINGLE).mkdir()
    assert "not a regular file" in refused(tmp_path)
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(DamagedFile, match="not a regular file"):
        read_json(tmp_path / "config.json")


class Payload:
    """What a hostile pickle is made of: opening it would make the marker."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.case("V027")
@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "x.ckpt"])
def test_a_pickle_is_never_opened_and_the_safe_format_is_suggested(tmp_path: Path, name: str) -> None:
    model, marker = tmp_path / "model", tmp_path / "marker"
    model.mkdir()
    (model / name).write_bytes(pickle.dumps(Payload(marker)))
    line = refused(model, AccessError)
    assert name in line
    assert "get model.safetensors" in line
    assert not marker.exists()
    torch.save(two_tensors(), model / name)
    assert name in refused(model, AccessError), "a harmless one is a pickle too"
    save_file(two_tensors(), model / SINGLE)
    assert set(TensorFiles(model).shapes) == set(two_tensors()), "beside safetensors it does no harm"


@pytest.mark.case("V027")
def test_a_pickle_under_a_safe_name_is_damage_and_runs_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    (tmp_path / SINGLE).write_bytes(pickle.dumps(Payload(marker)))
    assert SINGLE in refused(tmp_path)
    assert not marker.exists()


def test_no_directory_and_no_weights_are_said_as_such(tmp_path: Path) -> None:
    assert "no such directory" in refused(tmp_path / "absent", NotFound)
    assert "no weights" in refused(tmp_path, NotFound)
    (tmp_path / ".gone.old-17").mkdir()
    assert ".gone.old-17" in refused(tmp_path / "gone", NotFound), "the save before an interrupted one"


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"", "not valid JSON"),
        (b"[1]", "expected a JSON object, found list"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b'{"a": 1, "a": 2}', "occurs twice"),
        (b'{"a": Infinity}', "not valid JSON"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b'{"a": ' + b"1" * 5_000 + b"}", "not valid JSON"),
        (b'{"a": "' + b"x" * 2**24 + b'"}', "expected at most 16,777,216 bytes, found 16,777,225"),
    ],
)
def test_json_is_bounded_and_strict(tmp_path: Path, content: bytes, cause: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(DamagedFile) as caught:
        read_json(tmp_path / "config.json")
    assert cause in str(caught.value)
    assert "config.json" in str(caught.value)
    assert str(caught.value).isprintable()


def test_json_that_is_missing_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_json(tmp_path / "config.json")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_one_value_that_is_not_finite_is_found_and_its_tensor_named(dtype: torch.dtype, value: float) -> None:
    tensor = torch.ones(7, 11, dtype=dtype)
    check_finite("layer.weight", tensor)
    tensor[3, 5] = value
    with pytest.raises(DamagedFile, match=r"x\.safetensors: tensor 'layer.weight' holds 1 values that are not finite"):
        check_finite("layer.weight", tensor, where="x.safetensors")


def test_eight_bit_floats_are_checked_too_and_whole_numbers_and_nothing_are_finite() -> None:
    eight = torch.ones(5).to(torch.float8_e4m3fn)
    check_finite("x", eight)
    eight[2] = float("nan")
    with pytest.raises(DamagedFile):
        check_finite("x", eight)
    check_finite("x", torch.tensor([2**62]))
    check_finite("x", torch.zeros(0, 3))
    check_finite("x", torch.tensor(1.5))
    check_finite("x", torch.full((3,), torch.finfo(torch.float32).max))


@pytest.mark.parametrize("name", ["bert/sequence_classification", "gpt2/causal_lm", "llama/causal_lm"])
def test_the_same_weights_give_the_same_bits_wherever_a_file_holds_them(name: str, tmp_path: Path) -> None:
    """Mapped, they lie at any multiple of 8 bytes; MKL left to itself adds up in another order there."""
    case = named(name)
    directory = materialise(case, tmp_path / "model")
    ids = torch.randint(5, 90, (2, 9), generator=torch.Generator().manual_seed(1))
    file, said = directory / "model.safetensors", []
    for _ in range(8):
        model = load(directory, head=case.head, tokenizer=False)
        with torch.no_grad():
            said.append([model(ids).logits, model(ids[:1, :1]).logits])
        content = file.read_bytes()
        begin = int.from_bytes(content[:8], "little") + 8
        file.write_bytes((begin).to_bytes(8, "little") + content[8:begin] + b" " * 8 + content[begin:])
    assert all(torch.equal(one, first) for row in said for one, first in zip(row, said[0], strict=True))
