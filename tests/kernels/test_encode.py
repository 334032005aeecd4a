"""The loops between an encoder's products give what their plain forms give, on any width, with or without each term."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from tests.gates import narrow_limit
from variorum.kernels import encode
from variorum.kernels.compiled import library
from variorum.kernels.encode import ACTIVATIONS, Heads, Norm, Placement, Texts

LENGTHS = (1, 5, 64, 17, 130, 7)


@pytest.fixture(autouse=True)
def compiled() -> None:
    if library("encode") is None:
        pytest.skip("nothing compiles here, and the plain forms are all there is")


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def close(found: Tensor, plain: Tensor, right: Tensor) -> bool:
    """Whether a loop is about as near the truth in float64 as its plain form is."""
    spread = float(right.std(correction=0)) + 1
    error, own = (float((one - right).abs().max()) / spread for one in (plain, found))
    return own <= narrow_limit(error)


def wide(*tensors: Tensor | None) -> tuple[Tensor | None, ...]:
    return tuple(None if one is None else one.double() for one in tensors)


@pytest.mark.parametrize("width", [1, 7, 16, 100])
@pytest.mark.parametrize("kind", ACTIVATIONS)
@torch.no_grad()
def test_an_activation_with_its_bias_and_its_factor(kind: str, width: int) -> None:
    gate, up, bias = 3 * drawn(37, width), drawn(38, width)[:37], drawn(width)
    for terms in itertools.product((bias, None), (up, None), (bias, None)):
        right = encode._activate(kind, *wide(gate, *terms))  # type: ignore[arg-type]
        assert close(encode.activate(kind, gate.clone(), *terms), encode._activate(kind, gate, *terms), right)


@torch.no_grad()
def test_gelu_is_as_near_the_truth_as_torch_is() -> None:
    x = torch.linspace(-8, 8, 200_001)[None]
    right = torch.nn.functional.gelu(x.double())
    ours = (encode.activate("gelu", x.clone(), None) - right).abs().max()
    assert float(ours) <= float((torch.nn.functional.gelu(x) - right).abs().max())


@pytest.mark.parametrize("width", [1, 7, 32, 100])
@pytest.mark.parametrize("centred", [True, False])
@torch.no_grad()
def test_a_residual_its_bias_and_its_norm(centred: bool, width: int) -> None:
    x, y, bias = drawn(37, width) + 5, drawn(38, width)[:37], drawn(width)
    norm = Norm(drawn(width), drawn(width), 1e-6, centred, unit=0.0 if centred else 1.0)
    exact = Norm(norm.weight.double(), norm.shift.double(), 1e-6, centred, norm.unit)  # type: ignore[union-attr]
    for terms in itertools.product((y, None), (bias, None)):
        plain = encode._plus(encode._plus(x, terms[0]), terms[1])
        assert torch.equal(encode.join(x, *terms, None), plain)
        if width > 1 or not centred:  # one number is its own mean: what is left is rounding
            right = encode._normed(plain.double(), exact)
            assert close(encode.join(x, *terms, norm), encode._normed(plain, norm), right)


@pytest.mark.parametrize(("heads", "kv_heads", "size"), [(4, 4, 32), (4, 2, 8), (2, 1, 40), (3, 3, 33)])
@pytest.mark.parametrize("window", [None, 0, 3, 64])
@pytest.mark.parametrize("placed", [False, True])
@torch.no_grad()
def test_attention_stays_within_each_text(
    heads: int, kv_heads: int, size: int, window: int | None, placed: bool
) -> None:
    total, texts, shape = sum(LENGTHS), Texts(LENGTHS), Heads(heads, kv_heads, size**-0.5, window)
    projected = drawn(total, heads * size), drawn(total, kv_heads * size), drawn(total + 1, kv_heads * size)[1:]
    biases = drawn(heads * size), drawn(kv_heads * size), None
    placement = Placement(drawn(total, 2, size // 4), drawn(heads, 9)) if placed else Placement()
    exact = Placement(*wide(placement.turn, placement.near))
    right = encode.attend(wide(*projected), wide(*biases), shape, texts, exact)  # type: ignore[arg-type]
    plain = encode._attend(projected, biases, shape, texts, placement)
    assert close(encode.attend(projected, biases, shape, texts, placement), plain, right)


@torch.no_grad()
def test_projections_may_be_slices_of_one_product() -> None:
    every = drawn(sum(LENGTHS), 96)
    parts, shape = every.split(32, 1), Heads(4, 4, 0.3)
    apart = tuple(part.contiguous() for part in parts)
    found = encode.attend(parts, (None,) * 3, shape, Texts(LENGTHS), Placement())  # type: ignore[arg-type]
    assert torch.equal(found, encode.attend(apart, (None,) * 3, shape, Texts(LENGTHS), Placement()))  # type: ignore[arg-type]
