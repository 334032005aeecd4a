"""Ways in which the files of a checkpoint get damaged, or are made to do damage; each seeded, each with its name.

A mutation takes the files of a directory and gives those that change (None: the file is gone). It does not say what
should come of it.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Mapping
from typing import Any

Files = Mapping[str, bytes]
Changed = dict[str, bytes | None]
Mutation = Callable[[Files, random.Random], Changed]

INDEX = "model.safetensors.index.json"
MANIFEST = "variorum-manifest.json"
CONFIG = "config.json"
HUGE = (0, -1, 1, 10**7, 2**31, 2**63, 2**64, 10**19, 10**400)
ODD = (None, True, "", "x", "\ud800", "\x1b[2J", [], {}, [1], {"a": 1}, 0.5, -0.0, 1e308, -1e-300, *HUGE)


def mutate(files: Files, seed: int) -> tuple[str, Changed]:
    """The mutation of this seed: its name and what it changes. It always changes some byte."""
    rng = random.Random(seed)
    while True:
        mutation = ALL[rng.randrange(len(ALL))]
        changed = mutation(files, rng)
        if any(files.get(name) != content for name, content in changed.items()):
            return mutation.__name__, changed


def _weights(files: Files, rng: random.Random) -> str:
    return rng.choice([name for name in sorted(files) if name.endswith(".safetensors")])


def _texts(files: Files, rng: random.Random) -> str:
    return rng.choice([name for name in sorted(files) if not name.endswith(".safetensors")])


def _any(files: Files, rng: random.Random) -> str:
    return (_weights if rng.random() < 0.5 else _texts)(files, rng)


def _take(content: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def _put(header: object, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def _tensors(header: Mapping[str, Any]) -> list[str]:
    return [name for name in header if name != "__metadata__"]


def flipped_bit(files: Files, rng: random.Random) -> Changed:
    name = _any(files, rng)
    content = bytearray(files[name])
    end = 8 + int.from_bytes(content[:8], "little") if name.endswith(".safetensors") and rng.random() < 0.5 else None
    content[rng.randrange(end or len(content))] ^= 1 << rng.randrange(8)
    return {name: bytes(content)}


def overwritten_bytes(files: Files, rng: random.Random) -> Changed:
    name = _any(files, rng)
    content = bytearray(files[name])
    at, count = rng.randrange(len(content)), rng.choice((2, 16, 512))
    content[at : at + count] = rng.choice((bytes(count), rng.randbytes(count)))[: len(content) - at]
    return {name: bytes(content)}


def cut(files: Files, rng: random.Random) -> Changed:
    name = _any(files, rng)
    content = files[name]
    places = [0, 1, 7, 8, 9, len(content) // 2, len(content) - 8, len(content) - 1]
    if name.endswith(".safetensors"):
        header, _ = _take(content)
        start = 8 + int.from_bytes(content[:8], "little")
        places += [start // 2, start - 1, start, start + 1]
        places += [start + header[tensor]["data_offsets"][1] for tensor in _tensors(header)][:-1]
    return {name: content[: rng.choice(places)]}


def appended(files: Files, rng: random.Random) -> Changed:
    name = _any(files, rng)
    return {name: files[name] + rng.choice((b"\0", b" ", b"}", b"\n{}", rng.randbytes(64), bytes(4096)))}


def gone(files: Files, rng: random.Random) -> Changed:
    return {rng.choice([name for name in sorted(files) if name != MANIFEST]): None}


def header_length(files: Files, rng: random.Random) -> Changed:
    name = _weights(files, rng)
    content = files[name]
    length = int.from_bytes(content[:8], "little")
    other = rng.choice((0, 1, length - 1, length + 1, 10**8 + 1, 2**63, 2**64 - 1, rng.randrange(2**64)))
    return {name: struct.pack("<Q", other) + content[8:]}


def header_entry(files: Files, rng: random.Random) -> Changed:
    """One field of one tensor's entry: products beyond 2^64, other types of the same size, offsets, odd values."""
    name = _weights(files, rng)
    header, data = _take(files[name])
    entry = header[rng.choice(_tensors(header))]
    field = rng.choice(("shape", "dtype", "data_offsets"))
    if field == "shape":
        shape = entry["shape"]
        entry["shape"] = rng.choice(
            ([2**32, 2**32], [2**63, 2], [0, *shape], shape[::-1], shape[:-1], [*shape, 1], [1] * 9, rng.choice(ODD))
        )
    elif field == "dtype":
        entry["dtype"] = rng.choice(("I32", "U32", "F64", "F16", "BF16", "F8_E4M3", "C64", "F4", rng.choice(ODD)))
    else:
        begin, end = entry["data_offsets"]
        entry["data_offsets"] = rng.choice(
            ([begin, end + 4], [begin + 4, end], [end, begin], [begin, 2**64], [-4, end], [begin], rng.choice(ODD))
        )
    return {name: _put(header, data)}


def swapped_tensors(files: Files, rng: random.Random) -> Changed:
    """Two tensors of one shape change places: nothing but a hash can tell."""
    name = _weights(files, rng)
    header, data = _take(files[name])
    alike: dict[str, list[str]] = {}
    for tensor in _tensors(header):
        alike.setdefault(json.dumps([header[tensor]["dtype"], header[tensor]["shape"]]), []).append(tensor)
    groups = [group for group in alike.values() if len(group) > 1]
    if groups:
        one, other = rng.sample(rng.choice(groups), 2)
        header[one], header[other] = header[other], header[one]
    return {name: _put(header, data)}


def not_finite(files: Files, rng: random.Random) -> Changed:
    name = _weights(files, rng)
    header, data = _take(files[name])
    begin, _ = header[rng.choice(_tensors(header))]["data_offsets"]
    value = struct.pack("<f", rng.choice((float("nan"), float("inf"), float("-inf"))))
    return {name: _put(header, data[:begin] + value + data[begin + 4 :])}


def other_names(files: Files, rng: random.Random) -> Changed:
    """A tensor is missing (with its bytes), has another name, or there is one more."""
    name = _weights(files, rng)
    header, data = _take(files[name])
    last = max(_tensors(header), key=lambda tensor: header[tensor]["data_offsets"])
    what = rng.choice(("missing", "renamed", "extra", "prefixed"))
    if what == "missing":
        data = data[: header.pop(last)["data_offsets"][0]]
    elif what == "renamed":
        header[rng.choice((last + "x", last[:-1], "", "\x1b[31m", "x" * 100_000))] = header.pop(last)
    elif what == "extra":
        size = len(data)
        header[rng.choice(("extra.weight", "bert\x1b[31m.weight\x7f"))] = {
            "dtype": "F32",
            "shape": [1],
            "data_offsets": [size, size + 4],
        }
        data += bytes(4)
    else:
        header = {f"enc.{tensor}": header[tensor] for tensor in _tensors(header)}
    return {name: _put(header, data)}


def key_twice(files: Files, rng: random.Random) -> Changed:
    if rng.random() < 0.5:
        name = _weights(files, rng)
        header, data = _take(files[name])
        tensor = rng.choice(_tensors(header))
        again = json.dumps({tensor: header[tensor]})[1:].encode()
        return {name: _put(json.dumps(header)[:-1].encode() + b"," + again, data)}
    name = rng.choice([name for name in sorted(files) if name.endswith(".json")])
    document = json.loads(files[name])
    key = rng.choice(sorted(document))
    again = json.dumps({key: rng.choice((document[key], 1, None))})[1:].encode()
    return {name: json.dumps(document)[:-1].encode() + b"," + again}


def absurd_json(files: Files, rng: random.Random) -> Changed:
    name = rng.choice([name for name in sorted(files) if name.endswith((".json", ".safetensors"))])
    text = rng.choice(
        (b"[" * 200_000, b'{"a":' * 200_000, b'{"a":' * 200_000 + b"1" + b"}" * 200_000, b'{"a":%s}' % (b"9" * 5000),
         b"", b"null", b"[]", b"{}", b'{"a":NaN}', b'{"a":1e999}', b'"', b"{" * 50, b'{"\\ud800":"\\udfff"}',
         b"\xef\xbb\xbf{}", b"{}\0", b'{"a":"' + b"x" * 10**6 + b'"}', b"[" + b"{}," * 300_000 + b"{}]")
    )  # fmt: skip
    if name.endswith(".safetensors"):
        return {name: _put(text, _take(files[name])[1])}
    return {name: text}


def edited_config(files: Files, rng: random.Random) -> Changed:
    """One value of the config is another: sizes, heads, epsilons, rope, names of activations, anything."""
    config = json.loads(files[CONFIG])
    key = rng.choice(sorted(config))
    value = config[key]
    near: tuple[Any, ...] = ()
    if type(value) in (int, float):
        near = (value + 1, value - 1, value * 2, value / 2, -value, str(value))
    config[key] = rng.choice((*near, *near, *ODD))
    if rng.random() < 0.2:
        del config[key]
    return {CONFIG: json.dumps(config).encode()}


def edited_index(files: Files, rng: random.Random) -> Changed:
    index = json.loads(files[INDEX]) if INDEX in files else {"metadata": {}, "weight_map": {}}
    places = index["weight_map"]
    name = rng.choice(sorted(places) or ["x"])
    what = rng.choice(("retarget", "drop", "add", "whole"))
    if what == "retarget":
        places[name] = rng.choice(
            ("../x.safetensors", "/etc/passwd", "x.safetensors", "", "a\0b", ".", CONFIG, rng.choice(ODD),
             rng.choice(sorted(set(places.values())) or ["x"]))
        )  # fmt: skip
    elif what == "drop":
        places.pop(name, None)
    elif what == "add":
        places["extra.weight"] = rng.choice(sorted(set(places.values())) or ["x"])
    else:
        index["weight_map"] = rng.choice(ODD)
    return {INDEX: json.dumps(index).encode()}


def edited_manifest(files: Files, rng: random.Random) -> Changed:
    if MANIFEST not in files:
        return {MANIFEST: rng.choice((b"{}", b'{"format":1,"files":{}}', b"\0"))}
    document = json.loads(files[MANIFEST])
    listed = document["files"]
    name = rng.choice(sorted(listed))
    what = rng.choice(("drop", "sha256", "bytes", "rename", "format", "value"))
    if what == "drop":
        del listed[name]
    elif what in ("sha256", "bytes"):
        listed[name][what] = rng.choice(("0" * 64, listed[name]["bytes"] + 1, *ODD))
    elif what == "rename":
        listed[rng.choice(("../" + name, name.upper(), "", "new.json"))] = listed.pop(name)
    elif what == "format":
        document["format"] = rng.choice(ODD[:-8])
    else:
        listed[name] = rng.choice(ODD)
    return {MANIFEST: json.dumps(document).encode()}


ALL: tuple[Mutation, ...] = (
    flipped_bit, flipped_bit, flipped_bit, overwritten_bytes, cut, cut, appended, gone, header_length, header_entry,
    header_entry, swapped_tensors, not_finite, other_names, key_twice, absurd_json, edited_config, edited_config,
    edited_index, edited_manifest,
)  # fmt: skip
