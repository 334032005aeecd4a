"""Damage of every kind to every file of a checkpoint: refused in one line, or without effect on what is loaded.

On our own saves nothing passes unnoticed. On a published directory without hashes, damage that leaves every length,
name, shape and type as it was cannot be told from another model; all other damage is refused there too.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import variorum
from tests.faults import models
from tests.faults.children import Outcome, run
from tests.faults.mutations import CONFIG, INDEX, MANIFEST, Changed, Files, mutate

KINDS = ("own", "own in shards", "published", "published in shards")
CASES = (350, 350, 150, 150)
NIGHTLY_CASES = 5_000  # of each kind
DAMAGED, MISSING = ("DamagedFile", 7), ("NotFound", 3)


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("faults")
    return {
        "own": models.own(place / "own"),
        "own in shards": models.own_sharded(place / "own-sharded"),
        "published": models.published(place / "published"),
        "published in shards": models.published(place / "published-sharded", sharded=True),
    }


def meaning(directory: Path) -> str:
    """What is loaded: every weight, setting and word, as one hash."""
    model = variorum.load(directory)
    digest = hashlib.sha256(repr(model.spec).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    digest.update(repr(model.tokenizer and sorted(model.tokenizer.files.items())).encode())
    return digest.hexdigest()


@contextmanager
def changed(directory: Path, changes: Changed) -> Iterator[None]:
    """The directory with these files as given, and as it was afterwards."""
    before = {name: (directory / name).read_bytes() for name in changes if (directory / name).exists()}
    try:
        for name, content in changes.items():
            if content is None:
                (directory / name).unlink()
            else:
                (directory / name).write_bytes(content)
        yield
    finally:
        for name in changes:
            if name in before:
                (directory / name).write_bytes(before[name])
            else:
                (directory / name).unlink(missing_ok=True)


def layout(content: bytes) -> object:
    """All that a safetensors file says besides its values: length, names, shapes, types."""
    try:
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        tensors = {name: (entry["dtype"], entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
        return len(content) - length, tensors
    except (ValueError, KeyError, TypeError, AttributeError):
        return content


def without_trace(files: Files, changes: Changed) -> bool:
    """Whether a directory without hashes cannot show this damage: other values, settings or words, as good as any."""
    for name, content in changes.items():
        if name.endswith(".safetensors") and (content is None or layout(content) != layout(files[name])):
            return False
        if name in (INDEX, MANIFEST):
            return False
    return True


def wrong(outcome: Outcome, *, own: bool, where: Path, files: Files, changes: Changed, right: str) -> str:
    """What is wrong about how a damaged directory was met; empty if nothing is."""
    told = (outcome.kind, outcome.exit_code)
    if told == ("returned", 0):
        if outcome.line == right:
            return "took damage for the original" if own and changes.keys() != {MANIFEST} else ""
        return "" if not own and without_trace(files, changes) else "silently loaded something else"
    if not outcome.is_one_line or str(where) not in outcome.line:
        return "said more or less than one line that names the place"
    if own:
        named = any(name in outcome.line for name in changes)
        return "" if told == DAMAGED and named else "not refused as damage to this file"
    return "" if told in (DAMAGED, MISSING) else "failed in a way that is none of ours"


def attempt(directory: Path, seeds: range, *, own: bool) -> tuple[list[str], Counter[str]]:
    """Every case of these seeds: what went wrong, and how often each mutation was seen with each end."""
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    right = meaning(directory)
    failures, seen = [], Counter[str]()
    for seed in seeds:
        mutation, changes = mutate(files, seed)
        with changed(directory, changes):
            outcome = run(lambda: meaning(directory))
        seen[f"{mutation}: {outcome.kind}"] += 1
        cause = wrong(outcome, own=own, where=directory, files=files, changes=changes, right=right)
        if cause:
            failures.append(f"seed {seed}, {mutation} of {', '.join(changes)}: {cause}: {outcome}")
    assert meaning(directory) == right
    return failures, seen


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_loaded_silently_or_ends_in_anything_but_one_line(directories: dict[str, Path], kind: str) -> None:
    begin = 1_000_000 * KINDS.index(kind)
    failures, seen = attempt(
        directories[kind], range(begin, begin + CASES[KINDS.index(kind)]), own=kind.startswith("own")
    )
    assert failures == []
    assert len({name.split(":")[0] for name in seen}) >= 15, "the seeds reach every kind of damage"


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_passes_in_a_long_run(directories: dict[str, Path], kind: str, part: int) -> None:
    count = NIGHTLY_CASES // 4
    begin = 1_000_000 * KINDS.index(kind) + 1_000 + part * count
    failures, _ = attempt(directories[kind], range(begin, begin + count), own=kind.startswith("own"))
    assert failures == []


def edit(directory: Path, **values: object) -> Changed:
    """The config with these values."""
    return {CONFIG: json.dumps({**json.loads((directory / CONFIG).read_bytes()), **values}).encode()}


@pytest.mark.parametrize(
    ("key", "value"),
    [("num_hidden_layers", 10**7), ("num_hidden_layers", 0), ("num_attention_heads", 3), ("hidden_act", "x"),
     ("vocab_size", 0), ("vocab_size", 2**40), ("hidden_size", 10**10), ("hidden_size", "16"), ("model_type", None)],
)  # fmt: skip
def test_a_config_that_no_machine_could_build_is_refused_at_once(
    directories: dict[str, Path], key: str, value: object
) -> None:
    place = directories["published"]
    with changed(place, edit(place, **{key: value})):
        outcome = run(lambda: meaning(place))
    assert (outcome.kind, outcome.exit_code) in (DAMAGED, MISSING), outcome
    assert outcome.is_one_line
    assert str(place / CONFIG) in outcome.line or "this model needs" in outcome.line


def test_weights_that_claim_to_be_whole_numbers_are_refused(directories: dict[str, Path]) -> None:
    place = directories["published"]
    whole = (place / "model.safetensors").read_bytes()
    with changed(place, {"model.safetensors": whole.replace(b'"F32"', b'"I32"', 1)}):
        outcome = run(lambda: meaning(place))
    assert (outcome.kind, outcome.exit_code) == DAMAGED
    assert "holds I32" in outcome.line
