"""Every claim is tried by a check, every check holds, and none of them would hold of something else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.checks.held import held
from tests.tiny_specs import made, tiny
from tests.tools.coverage import mechanisms
from variorum.checks import attention, cost, decoding, objectives, positions, streams, subjects
from variorum.checks.finding import Finding, NotApplicable
from variorum.checks.registry import CHECKS, Check, chosen, find
from variorum.errors import NotFound, UsageError
from variorum.family import models
from variorum.model import Model
from variorum.spec.model import Model as Spec

CLAIMS = {*(f"C{number}" for number in range(1, 26)), "D3", "H8"}
ALSO = {
    "permutation-equivariance": ("P1",),
    "tiled-attention": ("A11", "Z17"),
    "cache-time": ("Z17",),
    "batch-norm": ("N7",),
    "norm-placement": ("N3", "N4"),
}
LONG = 5
"""Seconds from which on a check is a nightly one."""


def cases() -> list[object]:
    """Every check on every model that it is tried on."""
    found: list[object] = []
    for check in CHECKS:
        marks = [
            pytest.mark.mechanism(check.id, *ALSO.get(check.name, ())),
            *([pytest.mark.nightly] if check.seconds > LONG else []),
        ]
        names = check.models or (None,)
        found += [pytest.param(check, name, id=f"{check.name}-{name or ''}".strip("-"), marks=marks) for name in names]
    return found


@pytest.mark.parametrize(("check", "name"), cases())
def test_it_holds(check: Check, name: str | None) -> None:
    held(check.run() if name is None else check.on(subjects.named(name)))


def test_every_claim_has_a_check_and_every_check_a_name_of_its_own() -> None:
    assert {check.id for check in CHECKS} >= CLAIMS
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert [check.name for check in find("c7")] == ["sinusoid-distance", "rope-distance"]
    assert chosen(["C7", "rope-distance"]) == find("C7")
    said = {
        word for line in mechanisms() for word in line.reach.split()[2:] if line.reach.startswith("variorum check ")
    }
    assert said <= {check.name for check in CHECKS}
    with pytest.raises(NotFound, match="did you mean receptive-field"):
        find("receptive-fields")


@pytest.mark.mechanism("R1", "C10")
def test_forty_epochs_of_fresh_masks_reach_every_token_and_one_fixed_mask_never_does() -> None:
    found = held(objectives.dynamic_masks())
    assert found["coverage of fresh masks"] == pytest.approx([0.478, 0.803, 0.998], abs=0.015)
    assert found["coverage of one fixed mask"] == pytest.approx(0.15)


@pytest.mark.nightly
@pytest.mark.mechanism("C16", "C17", "C23", "C15", "C5", "C8", "C19")
@pytest.mark.parametrize("name", models())
def test_all_models_of_the_family_hold_what_is_said_of_their_kind(name: str) -> None:
    if name in ("vit", "whisper", "bilm"):
        with pytest.raises(NotApplicable):
            subjects.named(name)
        return
    model, tried = subjects.named(name), 0
    for check in CHECKS:
        with contextlib.suppress(NotApplicable):
            tried += bool(check.models and held(check.on(model)))
    assert tried >= 2


def failed(findings: Iterable[Finding]) -> list[str]:
    """The claims that do not hold."""
    return [one.claim for one in findings if one.holds is False]


def leaking() -> Model:
    """A decoder that looks ahead."""
    return made(tiny("gpt2", {"architecture.decoder.mask": "bidirectional"}))


def deaf() -> Model:
    """An encoder whose tokens hear nothing after them."""
    return made(tiny("bert", {"architecture.encoder.mask": "causal"}))


@pytest.mark.parametrize("model", [leaking, deaf])
@pytest.mark.parametrize("check", [attention.causal_leakage, attention.appended_token])
def test_a_mask_that_is_wrong_is_noticed(
    check: Callable[[Model], Iterable[Finding]], model: Callable[[], Model]
) -> None:
    assert len(failed(check(model()))) == 1


def test_a_first_token_that_hears_only_itself_is_noticed() -> None:
    assert len(failed(attention.cls_token(deaf()))) == 2


class Forgetful(decoding.Cache):
    """A cache that holds half of what it says, and takes every new token for the first."""

    next_order = property(lambda self: 0)  # type: ignore[assignment]

    @property
    def bytes(self) -> int:
        """Half of them."""
        return super().bytes // 2


def wider(spec: Spec) -> Spec:
    return subjects.nano(spec).set({"architecture.decoder.block.attention.window": 9})


def placed(spec: Spec, depth: int | None = None) -> Model:
    return made("bert")


def grown(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    return x * (1 + cos.mean())


def open_diagonal(ranks: Tensor) -> Tensor:
    return (ranks[:, None, :] > ranks[:, :, None]).long()


def squared(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    return (student - teacher).square().sum()


@pytest.mark.parametrize(
    ("module", "name", "wrong", "check", "model", "claims"),
    [
        (attention, "nano", wider, "receptive-field", ("mistral", None), 1),
        (attention, "_placeless", placed, "permutation-equivariance", ("bert", None), 2),
        (decoding, "Cache", Forgetful, "kv-cache", ("gpt2", "causal_lm"), 2),
        (positions, "rotate", grown, "rope-distance", ("llama", None), 2),
        (positions, "longest", lambda spec: 7, "position-limit", ("bert", None), 1),
        (streams, "permutation_mask", open_diagonal, "two-stream-masks", None, 3),
        (objectives, "softened", squared, "soft-targets", None, 1),
        (objectives, "softened", squared, "loss-values", None, 1),
        (cost, "Sharing", lambda: None, "shared-layers", None, 1),
    ],
)
def test_what_is_expected_comes_from_elsewhere_than_what_is_found(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, wrong: object, check: str,
    model: tuple[str, str | None] | None, claims: int,
) -> None:  # fmt: skip
    """Each breaks the thing and leaves the claim."""
    monkeypatch.setattr(module, name, wrong)
    (one,) = find(check)
    assert len(failed(one.run() if model is None else one.on(made(*model)))) == claims


def test_what_a_check_is_not_about_is_refused() -> None:
    with pytest.raises(UsageError, match="about no one model"):
        find("signal-density")[0].on(made("bert"))
    with pytest.raises(NotApplicable, match="bert has no window"):
        find("receptive-field")[0].on(made("bert"))
    with pytest.raises(NotApplicable, match="does not read text"):
        subjects.named("vit")


def test_a_nano_model_is_at_rest_nowhere() -> None:
    model = subjects.named("bert")
    assert all(parameter.dtype == torch.float64 and parameter.unique().numel() > 1 for parameter in model.parameters())
    assert model.spec.architecture.vocab == subjects.VOCAB
    assert Finding(claim="", found=1, expected=None, holds=None, how="").holds is None
