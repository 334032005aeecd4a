"""A prepared model is the plain one, for every writer of the family, within what float32 itself costs."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from tests import gates
from tests.tiny_specs import DECODERS, ENCODERS, SEQ2SEQ, gap, lm_head, made, run, words
from variorum.attention.cache import CachePlan
from variorum.errors import UsageError
from variorum.inference.int8 import CodedLinear, Int8Linear
from variorum.inference.prepared import prepare
from variorum.inference.writer import Writer
from variorum.kernels import block, compiled
from variorum.model import Model

SEEDS = (0, 1)
PLAN = CachePlan(undo=3)
WRITERS = (*DECODERS, *SEQ2SEQ)
#: Their blocks hold a part that has no compiled form yet, so they run part by part.
PARTWISE = ("deepseek-v3", "mixtral", "qwen2-moe", "qwen3-moe", "transformer-xl")


def single(name: str, seed: int = 0) -> Model:
    """A tiny writer in float32."""
    return made(name, lm_head(name), seed=seed).float().eval()


@torch.no_grad()
def written(model: Model, plan: CachePlan | None) -> Tensor:
    """Scores along a way through a writer's life: unequal prompts, steps, a chunk, tokens forgotten, rows chosen."""
    prompts = [words(1, length, seed=length)[0].tolist() for length in (3, 11, 6)]
    kept = Writer(model, prompts, plan, source=None if model.spec.architecture.encoder is None else prompts)
    found = [kept.logits[:, None], kept.step(words(3, 1, seed=1)), kept.step(words(3, 4, seed=2))]
    kept.drop([0, 3, 1])
    kept.select([2, 1, 2])
    found += [kept.logits[:, None], kept.step(words(3, 2, seed=3)), kept.step(words(3, 1, seed=4))]
    alone = Writer(model, prompts[:1], plan, source=None if model.spec.architecture.encoder is None else prompts[:1])
    found += [alone.step(words(1, 1, seed=n)).expand(3, -1, -1) for n in range(6)]
    return torch.cat(found, 1)


def judged(ways: list[tuple[Tensor, Tensor, Tensor]]) -> None:
    """Our error against float64 is within the gate that the plain model's own sets, over a few draws of the weights."""
    ours = max(gap(one.double(), right) / float(right.std()) for one, _, right in ways)
    plain = max(gap(own.double(), right) / float(right.std()) for _, own, right in ways)
    assert ours <= gates.narrow_limit(plain), f"{ours:.1e}, plain {plain:.1e}"


def way(prepared: Model, plain: Model) -> tuple[Tensor, Tensor, Tensor]:
    return written(prepared, PLAN), written(plain, PLAN), written(copy.deepcopy(plain).double(), PLAN)


@pytest.mark.mechanism("K1")
@pytest.mark.parametrize("name", WRITERS)
def test_every_writer_of_the_family_writes_the_same(name):
    judged([way(prepare(plain), plain) for plain in (single(name, seed) for seed in SEEDS)])


@pytest.mark.parametrize("name", WRITERS)
def test_int8_writes_what_the_weights_that_it_stands_for_write(name):
    ways = []
    for plain in (single(name, seed) for seed in SEEDS):
        prepared = prepare(plain, "int8")
        ways.append(way(prepared, dequantised(plain, prepared)))
    judged(ways)


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_reads_the_same(name):
    plain, ids = made(name).float().eval(), words(2, 12)
    with torch.no_grad():
        models = prepare(plain), plain, copy.deepcopy(plain).double()
        ours, own, right = (run(model, ids).last_hidden_state for model in models)
    judged([(ours, own, right)])


class AsCodes(nn.Module):
    """An encoder's linear by definition: its rows and its weights are the numbers that their codes stand for."""

    def __init__(self, coded: CodedLinear) -> None:
        super().__init__()
        self.codes, self.bias = coded.codes, coded.bias

    def forward(self, x: Tensor) -> Tensor:
        rows, bias = self.codes.plain(x.flatten(0, -2)).unflatten(0, x.shape[:-1]), self.bias
        return rows if bias is None else rows + bias


def dequantised(plain: Model, prepared: Model) -> Model:
    """``plain`` with the weights that int8 codes stand for."""
    changed = copy.deepcopy(plain)
    for name, part in prepared.named_modules():
        if isinstance(part, CodedLinear):
            changed.set_submodule(name, AsCodes(part))
        elif isinstance(part, Int8Linear):
            # A head that shares the table of words multiplies by codes; the table is looked up as it is.
            linear = changed.get_submodule(name)
            linear.weight = nn.Parameter(part.product.linears[0].dense())
    return changed


@pytest.mark.parametrize("name", [name for name in DECODERS if name not in PARTWISE])
def test_blocks_run_compiled(name, monkeypatch):
    if compiled.library("decode") is None:
        pytest.skip(compiled.built("decode").why)
    ran, run_block = [], block.Block.run
    monkeypatch.setattr(block.Block, "run", lambda self, *given: ran.append(self) or run_block(self, *given))
    prepared = prepare(single(name))
    written(prepared, PLAN)
    assert len(set(map(id, ran))) == prepared.spec.architecture.main.depth


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_without_compiled_loops_all_is_the_same(weights, monkeypatch):
    plain = single("gemma-3")
    right = written(prepare(plain, weights), PLAN)
    monkeypatch.setenv("VARIORUM_KERNELS", "off")
    compiled.built.cache_clear()
    try:
        off = written(prepare(plain, weights), PLAN)
    finally:
        monkeypatch.undo()
        compiled.built.cache_clear()
    assert gap(off, right) <= 1e-5 * float(right.std())


@pytest.mark.parametrize(
    "plan", [CachePlan(numbers="int8", undo=3), CachePlan(page=4, undo=3), CachePlan(chunk=2, undo=3)], ids=str
)
def test_every_kind_of_cache_serves_a_prepared_model(plan):
    plain = single("llama-3")
    right = written(plain, plan)
    assert gap(written(prepare(plain), plan), right) <= 3e-5 * float(right.std())


def test_names_stay_and_tensors_are_shared():
    plain = single("llama-3")
    prepared = prepare(plain)
    assert [name for name, _ in prepared.named_parameters()] == [name for name, _ in plain.named_parameters()]
    for (_, ours), (_, theirs) in zip(prepared.named_parameters(), plain.named_parameters(), strict=True):
        assert ours.data_ptr() == theirs.data_ptr()
    assert all(type(part).__module__.startswith(("variorum.parts", "variorum.attention", "variorum.model", "torch"))
               for part in plain.modules())  # fmt: skip


def test_int8_holds_a_quarter_of_what_its_linears_held():
    plain = single("llama-3")
    parts = [part for part in prepare(plain, "int8").modules() if isinstance(part, Int8Linear)]
    assert len(parts) == 7 * plain.spec.architecture.main.depth + 1
    assert all(part.weight.dtype == torch.int8 and part.weight_scale.shape == part.weight.shape[:1] for part in parts)


def test_gradients_flow_through_a_prepared_model_as_through_the_plain_one():
    plain = single("llama-3")
    losses = [model(words(2, 8), labels=words(2, 8)).loss for model in (plain, prepare(plain))]
    assert gap(losses[0], losses[1]) == 0 and losses[1].requires_grad


def test_a_form_that_does_not_exist_and_int8_of_what_is_not_float32_are_refused():
    with pytest.raises(UsageError, match="no form of the weights"):
        prepare(single("llama-3"), "int4")
    with pytest.raises(UsageError, match="made of float32"):
        prepare(made("llama-3", "causal_lm"), "int8")
