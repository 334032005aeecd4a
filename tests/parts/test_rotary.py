"""Rotary positions: scores depend on distance alone, lengths stay, and the ways to go beyond the trained length."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.checks.held import held
from variorum.checks.positions import rotary_distance
from variorum.parts.rotary import inverse_frequencies, rotary_tables, rotate, running_frequencies, running_lengths
from variorum.spec.positions import (
    DynamicNtkScaling,
    LinearScaling,
    Llama3Scaling,
    NtkScaling,
    RopeScaling,
    Rotary,
    YarnScaling,
)


def vectors(count: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def turned(x: Tensor, position: int, rotary: Rotary) -> Tensor:
    """``x`` [d] at ``position``."""
    dims = int(len(x) * rotary.fraction)
    tables = rotary_tables(rotary, dims, torch.tensor([[position]]), torch.float64)
    return rotate(x[None, None, None], *tables, rotary.interleaved)[0, 0, 0]


def score(q: Tensor, m: int, k: Tensor, n: int, rotary: Rotary) -> float:
    """q at position ``m`` against k at position ``n``."""
    return float(turned(q, m, rotary) @ turned(k, n, rotary))


def ratio(scaling: RopeScaling | None, *, dims: int = 128, theta: float = 10_000.0, plain: float = 10_000.0) -> Tensor:
    """Frequency with ``scaling`` over frequency without, per pair."""
    scaled, _ = inverse_frequencies(Rotary(theta=theta, scaling=scaling), dims)
    return scaled / inverse_frequencies(Rotary(theta=plain), dims)[0]


@pytest.mark.mechanism("P6", "C7")
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("fraction", [1.0, 0.25])
def test_a_score_depends_on_the_distance_alone(interleaved, fraction):
    held(rotary_distance(Rotary(interleaved=interleaved, fraction=fraction), channels=64))


@pytest.mark.mechanism("P6")
@pytest.mark.parametrize("interleaved", [False, True])
def test_rotation_keeps_every_length(interleaved):
    x = vectors(1, 64)[0]
    for position in (0, 1, 77, 131_071):
        assert turned(x, position, Rotary(interleaved=interleaved)).norm() == pytest.approx(float(x.norm()), abs=1e-12)


@pytest.mark.mechanism("P6")
def test_the_first_pair_turns_by_the_position_in_radians():
    x = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    assert turned(x, 3, Rotary(interleaved=True)).tolist() == pytest.approx([math.cos(3), math.sin(3), 0, 0])
    assert turned(x, 3, Rotary(interleaved=False)).tolist() == pytest.approx([math.cos(3), 0, math.sin(3), 0])


@pytest.mark.mechanism("P6")
def test_one_permutation_of_channels_turns_either_layout_into_the_other():
    x = vectors(1, 64)[0]
    pairs_to_halves = torch.arange(64).view(32, 2).T.flatten()
    halves = turned(x[pairs_to_halves], 19, Rotary(interleaved=False))
    assert torch.equal(halves, turned(x, 19, Rotary(interleaved=True))[pairs_to_halves])


@pytest.mark.mechanism("P6")
def test_a_quarter_turns_and_the_rest_passes_untouched():
    x = vectors(1, 64)[0]
    y = turned(x, 9, Rotary(fraction=0.25))
    assert torch.equal(y[16:], x[16:])
    assert torch.equal(y[:16], turned(x[:16], 9, Rotary()))
    assert (y[:16] != x[:16]).all()


@pytest.mark.mechanism("P6")
def test_the_score_of_ones_with_ones_decays_with_distance():
    rotary, ones = Rotary(), torch.ones(128, dtype=torch.float64)
    published = {0: 128.0, 1: 124.2, 2: 114.8, 16: 79.4, 128: 42.6, 1024: 26.2}
    for distance, right in published.items():
        assert score(ones, distance, ones, 0, rotary) == pytest.approx(right, abs=0.05)


@pytest.mark.mechanism("P6")
def test_the_bound_on_any_score_decays_with_distance():
    """The mean of |S_i|, S_i the i-th partial sum of e^(i r w_j): Su et al. 2021, section 3.4.3."""
    inverse, _ = inverse_frequencies(Rotary(), 128)
    for distance, bound in {0: 32.5, 1: 31.54, 16: 15.78, 64: 10.09, 256: 6.54, 1024: 4.02}.items():
        partial = torch.exp(1j * distance * inverse).cumsum(0).abs()
        assert float(partial.mean()) == pytest.approx(bound, abs=0.0051)


@pytest.mark.mechanism("P7")
def test_interpolation_puts_position_p_where_p_over_s_was():
    x = vectors(1, 64)[0]
    assert torch.allclose(turned(x, 32, Rotary(scaling=LinearScaling(factor=8.0))), turned(x, 4, Rotary()), atol=1e-14)


@pytest.mark.mechanism("P7")
@pytest.mark.parametrize(("factor", "theta"), [(2, 20_221), (4, 40_890), (8, 82_685)])
def test_ntk_scaling_is_a_larger_base_that_slows_the_last_pair_by_the_factor_and_leaves_the_first(factor, theta):
    assert round(NtkScaling(factor=factor).base(10_000.0, 128)) == theta
    slower = ratio(NtkScaling(factor=factor))
    assert slower[0] == 1.0
    assert slower[-1] == pytest.approx(1 / factor, rel=1e-12)
    assert (slower.diff() < 0).all()
    assert torch.allclose(slower, ratio(None, theta=theta), rtol=1e-4)


@pytest.mark.mechanism("P7")
@pytest.mark.parametrize(("length", "theta"), [(9, 10_000), (4096, 10_000), (8192, 30528), (16_384, 72196)])
def test_dynamic_ntk_scaling_takes_the_base_of_the_texts_own_length(length, theta):
    # 4096 was trained on, factor 2: the base is that of NTK scaling by 2·n/4096 - 1, which is 3 and 7.
    scaling = DynamicNtkScaling(factor=2.0, original_length=4096)
    rotary = Rotary(scaling=scaling)
    running = running_frequencies(rotary, scaling, 128, torch.tensor([float(length)], dtype=torch.float64))[0]
    stretched = max(1.0, 2 * length / 4096 - 1)
    assert round(NtkScaling(factor=stretched).base(10_000.0, 128)) == theta
    assert torch.allclose(
        running, inverse_frequencies(Rotary(scaling=NtkScaling(factor=stretched)), 128)[0], rtol=1e-12
    )


@pytest.mark.mechanism("P7")
def test_every_text_in_a_batch_or_a_packed_row_is_as_long_as_itself():
    batch = torch.tensor([[0, 1, 2, 3], [-1, -1, 0, 1]])
    assert running_lengths(batch, None).tolist() == [[4] * 4, [2] * 4]
    packed, documents = torch.tensor([[0, 1, 2, 0, 1]]), torch.tensor([[7, 7, 7, 8, 8]])
    assert running_lengths(packed, documents).tolist() == [[3, 3, 3, 2, 2]]


@pytest.mark.mechanism("P7")
def test_llama_3_turned_from_base_ten_thousand_to_five_hundred_thousand():
    slower = ratio(None, theta=5e5)
    assert slower[-1] == pytest.approx(50 ** -(126 / 128))
    assert slower[32] == pytest.approx(50**-0.5)


@pytest.mark.mechanism("P7")
def test_yarn_keeps_fast_pairs_interpolates_slow_ones_and_ramps_between():
    kept = ratio(YarnScaling(factor=16.0, original_length=4096))
    assert (kept[:21] == 1).all()
    assert kept[24] == pytest.approx(0.8558, abs=5e-5)
    assert kept[32] == pytest.approx(0.5673, abs=5e-5)
    assert (kept[46:] == 0.0625).all()


@pytest.mark.mechanism("P7")
def test_llama_3_1_keeps_fast_pairs_slows_others_eightfold_and_ramps_between():
    scaling = Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_length=8192)
    kept = ratio(scaling, theta=5e5, plain=5e5)
    assert (kept[:29] == 1).all()
    assert kept[30] == pytest.approx(0.6437, abs=5e-5)
    assert kept[34] == pytest.approx(0.1902, abs=5e-5)
    assert (kept[36:] == 0.125).all()


@pytest.mark.mechanism("P7")
@pytest.mark.case("V010")
@pytest.mark.parametrize(
    ("factor", "given", "multiplier"),
    [(4.0, None, 1.138629), (16.0, None, 1.277259), (40.0, None, 1.368888), (16.0, 1.0, 1.0)],
)
def test_yarn_multiplies_cos_and_sin_unless_told_the_factor(factor, given, multiplier):
    rotary = Rotary(scaling=YarnScaling(factor=factor, original_length=4096, attention_factor=given))
    cos, sin = rotary_tables(rotary, 64, torch.arange(0, 9000, 1111)[None], torch.float64)
    exact = multiplier == 1.0
    assert inverse_frequencies(rotary, 64)[1] == pytest.approx(multiplier, abs=0 if exact else 5e-7)
    assert (cos**2 + sin**2).flatten().tolist() == pytest.approx([multiplier**2] * cos.numel(), abs=2e-6)


@pytest.mark.mechanism("P6")
@pytest.mark.case("V008")
def test_angles_of_far_positions_are_exact_in_bfloat16():
    cos, sin = rotary_tables(Rotary(), 64, torch.tensor([[15_936, 15_962, 15_963]]), torch.bfloat16)
    assert cos.dtype == torch.bfloat16
    rounded, right, next_one = cos[0, 0, :, 0].tolist()
    assert right == pytest.approx(-0.9080, abs=0.004)
    assert rounded == pytest.approx(-0.2680, abs=0.004)  # where a position rounded to bfloat16 would land
    assert abs(next_one - right) > 0.05
    assert sin[0, 0, 1, 0].float() ** 2 + right**2 == pytest.approx(1, abs=0.01)
