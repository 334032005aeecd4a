"""Low-rank adapters: nothing at first, then what they say everywhere, and gone without a trace."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.parity.case import materialise
from tests.parity.tiny import named
from tests.tiny_specs import NAMES, shaken, tiny
from variorum.builder import build
from variorum.checkpoint import load
from variorum.errors import NotFound, UsageError
from variorum.inference.fused import fused
from variorum.inference.prepared import prepare
from variorum.model import Model
from variorum.parts import lora
from variorum.parts.feedforward import down_projection
from variorum.tasks.adapt import Lora

pytestmark = pytest.mark.mechanism("H6")
IDS = torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5]])


def small(name: str, head: str | None = None) -> Model:
    return build(tiny(name), head=head)


def moved(model: Model) -> Model:
    for adapter in lora.adapters(model).values():
        adapter.b.data.normal_(generator=torch.Generator().manual_seed(3)).mul_(0.1)
    return model


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_a_model_starts_as_it_was_and_merging_and_unmerging_change_nothing_it_says(name: str) -> None:
    model = shaken(small(name))
    before = model(IDS).last_hidden_state
    Lora(rank=2, targets=("all",)).prepare(model)
    assert torch.equal(model.eval()(IDS).last_hidden_state, before)
    said = moved(model)(IDS).last_hidden_state
    weights = {name: tensor.clone() for name, tensor in model.named_tensors()}
    assert (said - before).abs().max() > 1e-3
    lora.merge(model)
    torch.testing.assert_close(model(IDS).last_hidden_state, said, atol=1e-12, rtol=0)
    lora.unmerge(model)
    torch.testing.assert_close(dict(model.named_tensors()), weights, atol=1e-15, rtol=0)
    torch.testing.assert_close(model(IDS).last_hidden_state, said, atol=1e-12, rtol=0)
    lora.remove(model)
    assert not lora.adapters(model) and not any(one._forward_hooks for one in model.modules())


@torch.no_grad()
def test_what_an_adapter_says_is_heard_on_every_path() -> None:
    model = small("bert").eval()
    Lora(rank=2, targets=("all",)).prepare(model)
    plain = moved(model)(IDS[:1], lengths=[5]).last_hidden_state
    torch.testing.assert_close(fused(model)(IDS[:1], lengths=[5]).last_hidden_state, plain, atol=1e-5, rtol=0)
    with pytest.raises(UsageError, match="merge them first"):
        prepare(model)
    latent = small("deepseek-v3", "causal_lm").eval()
    Lora(rank=2, targets=("latent_up",)).prepare(latent)
    from variorum.attention.cache import Cache

    cache, whole = Cache(), moved(latent)(IDS).logits
    for at in range(5):
        step = latent(IDS[:, at : at + 1], cache=cache).logits
        torch.testing.assert_close(step[:, -1], whole[:, at], atol=1e-4, rtol=0)


def test_a_float16_product_that_is_taken_in_float32_hears_the_adapter_too() -> None:
    linear = torch.nn.Linear(4, 3)
    lora.attach(linear, lora.LowRank(torch.ones(1, 4), torch.ones(3, 1), scale=2.0))
    x = torch.ones(1, 4)
    torch.testing.assert_close(
        down_projection(linear.half(), x.half()).float(), linear.float()(x), atol=2e-2, rtol=0
    )  # fmt: skip


def test_layers_that_share_weights_share_their_adapter_and_it_is_merged_once() -> None:
    model = small("albert")
    Lora(rank=2).prepare(model)
    held = lora.adapters(model)
    assert len(held) == 2 * model.spec.architecture.main.depth and len({id(one.a) for one in held.values()}) == 2
    owner = moved(model).get_parameter("encoder.layers.0.attention.query.weight")
    before, delta = owner.detach().clone(), next(iter(held.values())).delta()
    lora.merge(model)
    torch.testing.assert_close(owner.detach(), before + delta.detach())


def test_copies_of_a_model_have_adapters_of_their_own() -> None:
    model = small("bert")
    Lora(rank=2).prepare(model)
    other = moved(copy.deepcopy(model))
    assert not torch.equal(other.eval()(IDS).last_hidden_state, model.eval()(IDS).last_hidden_state)


@pytest.mark.parametrize(
    ("name", "head", "target", "kind", "said"),
    [
        ("bert", "masked_lm", "project", UsageError, "a table's twin"),
        ("bert", None, "input.table", UsageError, "a table or a vector"),
        ("mixtral", None, "experts.up", UsageError, "stack of experts"),
        ("bert", None, "qurey", NotFound, "no linear is called"),
    ],
)
def test_what_takes_no_adapter_is_refused_with_the_reason(
    name: str, head: str | None, target: str, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        Lora(targets=(target,)).prepare(small(name, head))


def test_a_seed_decides_where_adapters_start_and_names_keep_them_apart() -> None:
    starts = []
    for seed in (0, 0, 1):
        model = small("bert")
        Lora(rank=2).prepare(model, seed=seed)
        starts.append([one.a.detach() for one in lora.adapters(model).values()])
    assert all(map(torch.equal, starts[0], starts[1])) and not any(map(torch.equal, starts[0], starts[2]))
    assert not torch.equal(starts[0][0], starts[0][1])


def test_a_published_model_with_adapters_answers_alike_padded_and_laid_end_to_end(tmp_path) -> None:
    case = named("bert/sequence_classification")
    model = load(materialise(case, tmp_path), tokenizer=False)
    Lora(rank=2, targets=("all",)).prepare(model)
    moved(model).eval()
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    stream = torch.cat((IDS[0], IDS[1, :3]))[None]
    with torch.no_grad():
        padded, packed = model(IDS, attention_mask=mask).logits, model(stream, lengths=[5, 3]).logits
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=0)
