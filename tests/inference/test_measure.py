"""What a spec says a model costs is what a run of it shows."""

from __future__ import annotations

import pytest
import torch

from tests.spec.shrunk import ALL
from variorum.inference.measure import Measured, Written, measure
from variorum.spec.inputs import PatchInput

NAMES = ("bert", "albert", "xlnet", "t5", "gpt2", "mistral", "mixtral", "deepseek-v3", "vit", "whisper")
EXACT = ("parameters", "weights", "FLOPs of one pass", "cache")


def figures(name: str, **options: object) -> dict[str, Measured]:
    spec = ALL[name]
    source = spec.architecture.main.input
    context = source.length if isinstance(source, PatchInput) else 9
    heads = tuple(spec.architecture.heads)[:1]
    return {one.figure: one for one in measure(spec, heads=heads, context=context, batch=2, **options)}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_operations_and_cache_are_those_of_the_spec(name: str) -> None:
    found = figures(name)
    assert {figure: found[figure].observed for figure in EXACT} == {
        figure: found[figure].predicted for figure in EXACT
    }  # fmt: skip


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_a_pass_writes_what_the_spec_names_and_a_little_more(name: str) -> None:
    found = figures(name)
    written = found["activations written in one pass"]
    assert written.predicted is not None
    assert 1 <= written.observed / written.predicted < 1.3
    assert 0 < found["activations held at once"].observed < written.observed


def test_a_narrower_type_takes_half() -> None:
    wide, narrow = figures("gpt2"), figures("gpt2", dtype="bfloat16")
    for figure in ("weights", "cache"):
        assert narrow[figure].observed * 2 == wide[figure].observed == 2 * (narrow[figure].predicted or 0)


def test_written_counts_new_tensors_once_and_forgets_what_is_freed() -> None:
    x = torch.ones(256)
    with Written() as seen:
        y = x + 1  # 1,024 bytes
        y.add_(1)
        y.view(2, 128)[0]
        z = y * 2  # as many again
        del y
        w = z.sum()  # 4 bytes
    assert (seen.bytes, seen.peak, seen.held) == (2052, 2048, 1028)
    assert float(w) == 256 * 6
