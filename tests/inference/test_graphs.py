"""A step that can be recorded: tensors that stay where they are carry all that goes in and comes out."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.tiny_specs import CACHED, DECODERS, SEQ2SEQ, WINDOW, gap, lm_head, made, tiny, words
from variorum.attention.cache import Cache, CachePlan
from variorum.builder import build
from variorum.errors import UsageError
from variorum.inference import states
from variorum.inference.generate import generate
from variorum.inference.graphs import MOST_ROWS, Replayed, StaticStep, obstacle, replayed
from variorum.inference.states import Caching
from variorum.inference.writer import Writer
from variorum.model import Model
from variorum.parts.constants import _copied
from variorum.spec.positions import DynamicNtkScaling, Learned, Rotary

WRITERS = (*CACHED, *SEQ2SEQ)
STEADY = tuple(name for name in WRITERS if obstacle(tiny(name).architecture.main, CachePlan()) is None)
PROMPTS = [words(1, length, seed=length)[0].tolist() for length in (3, 8, 5)]


class OnTheDevice(TorchDispatchMode):
    """Fails where the host would have to wait for the device, or to send it something."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        devices = {x.device.type for x in tree_leaves((args, kwargs, out)) if isinstance(x, Tensor) and x.dim()}
        waits = {"aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal", "aten::bincount"}
        assert func._schema.name not in waits, f"{func} asks the device"
        assert len(devices) < 2, f"{func} goes from {devices}"
        return out


class Rerun:
    """Records by remembering the function, and replays by calling it; what it is called with must stay in place."""

    made = 0

    def record(self, step: StaticStep) -> Tensor:
        Rerun.made += 1
        self.step, self.places = step, (step.ids.data_ptr(), step.at.data_ptr())
        self.result = torch.full_like(step(), torch.nan)
        self.slots = [one.data_ptr() for slots in step.fixed.layers for one in slots.raw]
        return self.result

    def replay(self) -> None:
        assert (self.step.ids.data_ptr(), self.step.at.data_ptr()) == self.places
        self.result.copy_(self.step())
        assert [one.data_ptr() for slots in self.step.fixed.layers for one in slots.raw] == self.slots


def begun(model: Model, plan: CachePlan, prompts: list[list[int]]) -> Caching:
    source = None if model.spec.architecture.encoder is None else [words(1, n, seed=n)[0].tolist() for n in (9, 5, 7)]
    state = Caching(model, source, plan, None)
    state.begin(prompts)
    return state


def elsewhere(name: str) -> StaticStep:
    """A step on a device that cannot be asked anything."""
    model = made(name, lm_head(name)).eval()
    cache = begun(model, CachePlan(room=32), PROMPTS).cache
    for kept in (*cache.layers, *cache.cross):
        kept.raw = tuple(one.to("meta") for one in kept.raw)
    if cache.encoded is not None and cache.encoded_order is not None:
        cache.encoded, cache.encoded_order = cache.encoded.to("meta"), cache.encoded_order.to("meta")
    return StaticStep(model.to("meta"), cache)


@pytest.fixture
def rerun(monkeypatch) -> None:
    """Steps are replayed here as they would be on CUDA."""
    Rerun.made = 0

    def anywhere(model: Model, cache: Cache) -> Replayed | None:
        steady = obstacle(model.spec.architecture.main, cache.plan) is None
        return Replayed(model, cache, Rerun) if steady else None

    monkeypatch.setattr(states, "replayed", anywhere)


@pytest.mark.mechanism("K1")
@pytest.mark.parametrize("numbers", ["model", "int8"])
@pytest.mark.parametrize("name", STEADY)
def test_a_static_step_scores_what_a_writer_scores_beyond_windows_and_for_rows_of_their_own_lengths(name, numbers):
    model, plan = made(name, lm_head(name)).eval(), CachePlan(numbers=numbers, room=32)
    kept, plain = begun(model, plan, PROMPTS), begun(model, plan, PROMPTS)
    step = StaticStep(model, kept.cache)
    for number in range(WINDOW + 3):
        ids = words(3, 1, seed=number)
        wanted = plain.read(ids)
        step.ids.copy_(ids)
        step.at.copy_(torch.tensor(kept.cache.lengths)[:, None])
        for _ in range(2):  # as warming up does
            assert gap(step(), wanted) < 1e-12
        kept.cache.lengths = [length + 1 for length in kept.cache.lengths]


@pytest.mark.parametrize("name", STEADY)
def test_a_static_step_neither_asks_the_device_nor_sends_it_anything(name):
    step = elsewhere(name)
    step()  # what follows from the spec alone is on the device from then on
    with OnTheDevice():
        assert step().shape[:2] == (3, 1)


@pytest.mark.parametrize("name", ["llama", "bloom"])
def test_a_first_step_sends_what_follows_from_the_spec_alone(name):
    _copied.cache_clear()
    with OnTheDevice(), pytest.raises(AssertionError, match="goes from"):
        elsewhere(name)()


@pytest.mark.parametrize("name", [name for name in DECODERS if name not in STEADY])
def test_a_step_that_cannot_be_the_same_each_time_is_refused_with_the_reason(name):
    model = made(name, lm_head(name))
    with pytest.raises(UsageError, match=r"cannot be recorded: (it remembers states|how many tokens each expert)"):
        StaticStep(model, Cache(CachePlan(), rows=1))


def test_a_rotation_that_follows_the_text_pages_and_positions_that_count_ids_are_refused_too():
    follows = Rotary(scaling=DynamicNtkScaling(factor=2.0, original_length=8))
    model = made(tiny("llama", {"architecture.decoder.positions": follows}), "causal_lm")
    with pytest.raises(UsageError, match="follows the length"):
        StaticStep(model, Cache(CachePlan(), rows=1))
    counted = tiny("gpt2", {"architecture.decoder.input.positions": Learned(rows=80, count="ids")})
    with pytest.raises(UsageError, match="which ids are padding"):
        StaticStep(made(counted, "causal_lm"), Cache(CachePlan(), rows=1))
    with pytest.raises(UsageError, match="pages change"):
        StaticStep(made("llama", "causal_lm"), Cache(CachePlan(kind="paged"), rows=1))


@pytest.mark.mechanism("G2")
@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "bloom", "t5"])
def test_a_replayed_writer_steps_selects_and_forgets_as_any_other(name, rerun):
    model = made(name, lm_head(name)).eval()
    source = None if model.spec.architecture.encoder is None else PROMPTS
    quick, plain = Writer(model, PROMPTS, CachePlan(undo=3), source=source), Writer(model, PROMPTS, None, source=source)

    def read(count: int, rows: int = 3, steps: int = 1) -> None:
        for seed in range(steps):
            ids = words(rows, count, seed=seed)
            assert gap(quick.step(ids), plain.step(ids)) < 1e-12

    read(1, steps=6)
    assert Rerun.made == 1
    quick.select([2, 1, 1]), plain.select([2, 1, 1])
    read(1, steps=4)
    read(3)
    quick.drop([0, 3, 1]), plain.drop([0, 3, 1])
    read(1, steps=4)
    quick.select([1, 2]), plain.select([1, 2])
    read(1, rows=2, steps=4)
    assert Rerun.made > 1


@pytest.mark.parametrize("name", ["llama", "t5", "mixtral"])
@pytest.mark.parametrize("beams", [1, 2])
def test_what_is_generated_does_not_depend_on_replaying(name, beams, monkeypatch, request):
    model = made(name, lm_head(name)).eval()
    asked = {"max_new_tokens": 12, "num_beams": beams}
    wanted = [written.ids for written in generate(model, PROMPTS, **asked)]
    request.getfixturevalue("rerun")
    assert [written.ids for written in generate(model, PROMPTS, **asked)] == wanted
    if beams == 1:
        assert bool(Rerun.made) == (name != "mixtral")


def test_where_positions_end_the_usual_error_is_given(rerun):
    model = made("gpt2", "causal_lm").eval()
    rows = model.spec.architecture.main.input.positions.rows
    writer = Writer(model, [words(1, rows - 4)[0].tolist()])
    for _ in range(4):
        writer.step(words(1, 1))
    assert Rerun.made == 1
    with pytest.raises(UsageError, match=f"longer than the {rows}"):
        writer.step(words(1, 1))


def test_many_rows_take_ordinary_steps_and_so_does_a_step_that_fails_to_be_recorded():
    class Fails(Rerun):
        def record(self, step):
            raise RuntimeError("operation not permitted when stream is capturing")

    model = made("llama", "causal_lm").eval()
    many = begun(model, CachePlan(room=32), [[7, 8]] * (MOST_ROWS + 1))
    some = begun(model, CachePlan(room=32), PROMPTS)
    crowd, failing = Replayed(model, many.cache, Rerun), Replayed(model, some.cache, Fails)
    assert all(crowd.read(words(MOST_ROWS + 1, 1)) is None for _ in range(3))
    assert failing.read(words(3, 1)) is None
    with pytest.warns(UserWarning, match=r"without a CUDA graph.*not permitted"):
        assert failing.read(words(3, 1)) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert failing.read(words(3, 1)) is None


def test_nothing_is_replayed_on_a_cpu():
    model = made("llama", "causal_lm").eval()
    assert replayed(model, begun(model, CachePlan(), PROMPTS).cache) is None


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma", "t5"])
def test_bfloat16_scores_are_finite_and_near_those_of_float32(name, rerun):
    exact = build(tiny(name), head=lm_head(name), seed=0).eval()
    coarse = copy.deepcopy(exact).bfloat16()
    source = None if exact.spec.architecture.encoder is None else PROMPTS
    one, other = (Writer(model, PROMPTS, source=source) for model in (exact, coarse))
    for seed in range(5):
        wanted, scores = (writer.step(words(3, 1, seed=seed)) for writer in (one, other))
        assert scores.dtype == torch.bfloat16
        assert bool(scores.isfinite().all())
        # Eight bits a number, and a few roundings after one another: a twentieth of what scores measure.
        assert gap(scores.float(), wanted) < 0.05 * float(wanted.abs().max())
    assert Rerun.made == 2
