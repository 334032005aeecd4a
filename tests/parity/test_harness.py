"""The harness has teeth: what is broken is never called equal."""

from __future__ import annotations

import math

import pytest
import torch

from tests import gates
from tests.parity import oracle, ours
from tests.parity.compare import Bench, differing
from tests.parity.oracle import Outputs
from tests.parity.tiny import named

RIGHT = {"logits": torch.tensor([[0.0, 1.0], [2.0, 3.0]], dtype=torch.float64)}
BROKEN = {"logits": torch.tensor([[0.0, math.nan], [2.0, 3.0]], dtype=torch.float64)}


def test_a_nan_score_is_not_agreement():
    assert math.isnan(oracle.gap(Outputs(scores=BROKEN), Outputs(scores=RIGHT)))
    both = {"a": RIGHT["logits"], "logits": BROKEN["logits"]}
    assert math.isnan(oracle.gap(Outputs(scores=both), Outputs(scores={**RIGHT, "a": RIGHT["logits"]})))
    assert math.isnan(oracle.worst([0.0, math.nan, 1.0]))


def test_a_nan_gradient_is_not_agreement():
    right = {"first": RIGHT["logits"], "second": RIGHT["logits"]}
    assert math.isnan(oracle.gradient_gap({**right, "second": BROKEN["logits"]}, right))


def test_a_missing_or_reshaped_gradient_is_not_agreement():
    right = {"first": RIGHT["logits"], "second": RIGHT["logits"]}
    with pytest.raises(AssertionError, match="second"):
        oracle.gradient_gap({"first": RIGHT["logits"]}, right)
    with pytest.raises(AssertionError, match="second"):
        oracle.gradient_gap({**right, "second": RIGHT["logits"][:1]}, right)


def test_a_tensor_that_differs_in_one_bit_or_is_missing_is_named():
    bit = RIGHT["logits"].clone()
    bit[0, 0] = -0.0
    assert differing({"w": torch.nextafter(bit, bit + 1)}, {"w": bit}) == ["w"]
    assert differing({}, {"w": bit}) == ["w"]
    assert differing({"w": bit.float()}, {"w": bit}) == ["w"]
    assert differing({"w": bit}, {"w": RIGHT["logits"]}) == ["w"], "0.0 and -0.0 are other bits"


@pytest.mark.parametrize("name", ["bert/masked_lm", "t5/seq2seq_lm", "xlnet/permutation_lm", "deepseek-v3/causal_lm"])
def test_any_trained_tensor_nudged_by_a_millionth_fails_the_gate(name, tmp_path):
    bench = Bench(named(name), tmp_path)
    kind = "two_stream" if "xlnet" in name else "left"
    probe = next(probe for probe in bench.probes if probe.kind == kind)
    unseen, generator = [], torch.Generator().manual_seed(0)
    for path, tensor in bench.model.named_tensors():
        kept = tensor.detach().clone()
        with torch.no_grad():
            # Not scaled: the norm behind a matrix would undo that.
            tensor.add_(1e-6 * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype))
        nudged = ours.run(bench.model, probe, gradients=False)
        with torch.no_grad():
            tensor.copy_(kept)
        if oracle.gap(nudged, bench.right[kind]) <= gates.SCORES:
            unseen.append(path)
    # A key bias adds the same to all scores of a query; a selection bias moves no weight until a choice flips.
    assert [path for path in unseen if not path.endswith(("key.bias", "router.correction"))] == []
