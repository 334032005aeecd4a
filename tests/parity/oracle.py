"""The oracle: published model code run in true float64, with every parameter random.

`transformers` asks for float32 by name in most families (norms, softmax, rotary angles, routers), so a plain
float64 run of it still carries errors of 1e-7. `exact()` turns each such request into float64 while the oracle
is built and while it runs, and watches that no narrower tensor appears. What is compared, and how closely, is
not decided here: `probes.py` says what goes in, `tests/gates.py` how much may differ.

    python -m tests.parity.oracle        # every tiny model × probe: does the oracle agree with itself?
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.parity.probes import Probe

NARROW = (torch.float32, torch.float16, torch.bfloat16)

#: One name for what the published classes call differently.
RENAMED = {"prediction_logits": "logits", "seq_relationship_logits": "pair_logits", "sop_logits": "pair_logits"}
SCORES = (
    "logits", "pair_logits", "start_logits", "end_logits", "start_top_log_probs", "end_top_log_probs", "cls_logits",
    "last_hidden_state",
)  # fmt: skip


class WideRequests(TorchFunctionMode):
    """Every request for float32 (by method, by keyword, by position) is answered in float64."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16):
            func = torch.Tensor.double
        elif func is torch.finfo:
            return func(*args, **kwargs)
        args, kwargs = tree_map_only(torch.dtype, _widen, (args, kwargs))
        return func(*args, **kwargs)


class NothingNarrow(TorchDispatchMode):
    """Fails at the first operation, forward or backward, whose result is narrower than float64."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor) and leaf.dtype in NARROW:
                raise AssertionError(f"{func} made a {leaf.dtype} tensor of shape {tuple(leaf.shape)}")
        return result


def _widen(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float32 else dtype


@contextlib.contextmanager
def exact(*, watch: bool = True) -> Iterator[None]:
    """Inside, published model code computes in float64 throughout.

    `watch=False` leaves out the assertion: reading float32 files makes float32 tensors for a moment.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with WideRequests(), NothingNarrow() if watch else contextlib.nullcontext():
            yield
    finally:
        torch.set_default_dtype(before)


def randomise(model: nn.Module, seed: int) -> None:
    """Redraws every parameter and every saved buffer, so that each of them shows in the outputs.

    Norm weights stay near their identity (1, or 0 where the norm adds 1 itself), matrices keep the scale of their
    input, and tables, biases and selection buffers are wide enough that attention is far from uniform. The value
    depends on the name and the seed only. Parameters that the published code freezes stay as it computed them.
    """
    saved = model.state_dict()
    with torch.no_grad():
        for path, module in model.named_modules():
            for name, value in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
                full = f"{path}.{name}" if path else name
                frozen = isinstance(value, nn.Parameter) and not value.requires_grad
                if full in saved and value.is_floating_point() and not frozen:
                    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}:{full}".encode()))
                    noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
                    value.copy_(_drawn(module, name, value, noise))


def _drawn(module: nn.Module, name: str, value: Tensor, noise: Tensor) -> Tensor:
    """`noise` scaled to what a healthy parameter of this kind looks like."""
    kind = type(module).__name__
    if "Norm" in kind and name == "weight":
        return value.double().mean().round() + 0.25 * noise
    if isinstance(module, nn.Embedding):
        return 0.7 * noise
    if isinstance(module, nn.Conv1d) and name == "weight":
        return 1.2 * noise / (value.shape[1] * value.shape[2]) ** 0.5
    if name in ("seg_embed", "mask_emb"):
        return 0.7 * noise
    if value.ndim < 2 or name.endswith("_bias"):
        return 0.3 * noise
    # GPT-2's Conv1D and XLNet's [D, heads, head_dim] are stored input first; everything else input last.
    fan_in = value.shape[0] if kind in ("Conv1D", "XLNetRelativeAttention") else value.shape[-1]
    return 1.2 * noise / fan_in**0.5


def save(model: nn.Module, directory: Path) -> None:
    """Writes the published layout: config.json and safetensors, in the model's own precision."""
    import transformers

    transformers.logging.disable_progress_bar()
    model.save_pretrained(directory)  # type: ignore[operator]


def load64(directory: Path, oracle: str, backend: str = "eager") -> nn.Module:
    """The oracle from disk, in float64, in evaluation mode; no parameter or buffer is narrower."""
    with exact(watch=False):
        model = _load(directory, oracle, torch.float64, backend)
    for name, tensor in model.named_buffers():
        assert tensor.dtype not in NARROW, f"{name} is still {tensor.dtype}"
    # XLNet makes a parameter with torch.FloatTensor, which no mode sees; it holds a float32 file's value exactly.
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.float64)
    with torch.device("meta"):
        made = type(model)(model.config)
    for name, parameter in made.named_parameters():  # tables of sinusoids are not trained; loading forgets it
        model.get_parameter(name).requires_grad_(parameter.requires_grad)
    return model


def load32(directory: Path, oracle: str, backend: str = "eager") -> nn.Module:
    """The oracle from disk as its users run it in float32."""
    return _load(directory, oracle, torch.float32, backend)


def load_plain64(directory: Path, oracle: str, backend: str = "eager") -> nn.Module:
    """The oracle as its users run it in float64: hard-coded float32 steps and all."""
    return _load(directory, oracle, torch.float64, backend)


def published(name: str) -> Any:
    """The class of that name: the published one, or this suite's own where the published library has dropped it."""
    import transformers

    if hasattr(transformers, name):
        return getattr(transformers, name)
    from tests.reference import transfoxl

    return getattr(transfoxl, name)


def _load(directory: Path, oracle: str, dtype: torch.dtype, backend: str) -> nn.Module:
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model, report = published(oracle).from_pretrained(
        directory, dtype=dtype, attn_implementation=backend, output_loading_info=True
    )
    assert not any(report.values()), f"{oracle} did not load cleanly: {report}"
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    # T5's config class turns tying back on whatever the file says; what is saved from this model must say it again.
    if json.loads((directory / "config.json").read_text()).get("tie_word_embeddings") is False:
        model.config.tie_word_embeddings = False
    return model.eval()  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a probe yields, real rows only, in reading order: comparable across paddings and batchings.

    scores: output name → [rows, …] (logits, pair_logits, start_logits, end_logits, last_hidden_state)
    hidden_states: one [rows, D] per layer boundary, where the rows are tokens; else empty
    gradients: parameter name → gradient of the loss below (zeros where a parameter is not reached)
    """

    scores: Mapping[str, Tensor]
    hidden_states: tuple[Tensor, ...] = ()
    gradients: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)

    @property
    def logits(self) -> Tensor:
        """All scores side by side, flat."""
        return torch.cat([value.flatten() for value in self.scores.values()])


def loss(scores: Mapping[str, Tensor], seed: int = 0) -> Tensor:
    """A fixed random projection of the real rows: its gradient exercises every output equally."""
    total = torch.zeros((), dtype=next(iter(scores.values())).dtype)
    for name, value in sorted(scores.items()):
        generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}:{name}".encode()))
        cotangent = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        total = total + (value * cotangent.to(value.dtype)).sum()
    return total


def spread(values: Tensor) -> float:
    """The standard deviation of all scores of a model: the unit in which differences are judged."""
    return float(values.detach().double().std())


def worst(figures: Iterable[float]) -> float:
    """The largest, or NaN if any is NaN: Python's own `max(0.0, nan)` is 0.0, and would call a broken model perfect."""
    return float(torch.tensor(list(figures), dtype=torch.float64).max())


def gap(ours: Outputs, theirs: Outputs) -> float:
    """The largest difference of any score, in units of the spread of `theirs`; NaN if either side has one."""
    assert ours.scores.keys() == theirs.scores.keys(), f"{sorted(ours.scores)} against {sorted(theirs.scores)}"
    apart = []
    for name, right in theirs.scores.items():
        left = ours.scores[name]
        assert left.shape == right.shape, f"{name}: {tuple(left.shape)} against {tuple(right.shape)}"
        apart.append(float((left.double() - right.double()).abs().max()) / spread(right))
    return worst(apart)


def gradient_gap(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """The largest difference of any gradient, in units of the largest gradient in the model; NaN if there is one."""
    assert ours.keys() == theirs.keys(), f"only on one side: {sorted(ours.keys() ^ theirs.keys())[:4]}"
    shapes = [name for name, value in theirs.items() if ours[name].shape != value.shape]
    assert not shapes, f"gradients of other shapes: {shapes[:4]}"
    largest = worst(float(value.abs().max()) for value in theirs.values())
    return worst(float((ours[name] - value).abs().max()) for name, value in theirs.items()) / largest


def run(model: nn.Module, probe: Probe, *, gradients: bool = True) -> Outputs:
    """The oracle on a probe; batches run in order, and carry a cache or a memory where the probe says so.

    A model that keeps no cache (GPT-1) reads the same text in one call.
    """
    if probe.carry == "cache" and "use_cache" not in _parameters(model):
        probe, gradients = Probe(kind=probe.kind, batches=probe.whole), False
    gradients = gradients and probe.carry is None
    results: list[Mapping[str, Any]] = []
    carried: dict[str, Any] = {}
    with torch.set_grad_enabled(gradients):
        for batch in probe.batches:
            given = {**_accepted(model, batch.oracle()), **carried, "output_hidden_states": probe.carry is None}
            if probe.carry == "cache":
                given["use_cache"] = True
            elif "mems" in _parameters(model):
                given["use_mems"] = probe.carry == "memory"
            result = model(**given)
            carried = _carry(result, probe.carry)
            results.append({**_scores(result), **_states(result)})
        real = real_rows(results, probe)
        scores = {name: value for name, value in real.items() if name in SCORES}
        grads = _gradients(model, scores) if gradients else {}
    states = tuple(value.detach() for name, value in real.items() if name not in SCORES)
    return Outputs(scores={k: v.detach() for k, v in scores.items()}, hidden_states=states, gradients=grads)


def answers(model: nn.Module, probes: Iterable[Probe]) -> dict[str, Outputs]:
    """What an oracle in float64 says to each probe, by its kind."""
    with exact():
        return {probe.kind: run(model, probe) for probe in probes}


def real_rows(results: list[Mapping[str, Any]], probe: Probe) -> dict[str, Tensor]:
    """Per output name the rows that count: [B, T, …] by the mask, [B, …] whole; pieces of a row joined first."""
    rows = [batch.rows for batch in probe.batches]
    if probe.batches[0].choices:
        results = [{name: value.flatten() for name, value in r.items() if name in SCORES} for r in results]
    if probe.carry is not None:
        results = [{name: torch.cat([r[name] for r in results], dim=1) for name in results[0]}]
        rows = [torch.cat(rows, dim=1)]
    chosen = [
        {name: value if probe.batches[0].pooled or name == "pair_logits" else value[mask] for name, value in r.items()}
        for r, mask in zip(results, rows, strict=True)
    ]
    return {name: torch.cat([c[name] for c in chosen]) for name in chosen[0]}


def _gradients(model: nn.Module, scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    model.zero_grad(set_to_none=True)
    loss(scores).backward()
    return {
        name: torch.zeros_like(value) if value.grad is None else value.grad.clone()
        for name, value in model.named_parameters()
    }


def _carry(result: Any, kind: str | None) -> dict[str, Any]:
    if kind == "memory":
        return {"mems": result.mems}
    if kind == "cache":
        encoded = getattr(result, "encoder_last_hidden_state", None)
        return {"cache": result.cache, **({} if encoded is None else {"encoder_outputs": (encoded,)})}
    return {}


def _parameters(model: nn.Module) -> set[str]:
    return set(inspect.signature(model.forward).parameters)


def _accepted(model: nn.Module, given: Mapping[str, Any]) -> dict[str, Any]:
    """Drops positions for oracles that derive them themselves; anything else must be understood."""
    known = _parameters(model)
    unknown = given.keys() - known - {"position_ids"}
    assert not unknown, f"{type(model).__name__} does not take {sorted(unknown)}"
    return {name: value for name, value in given.items() if name in known}


def _scores(result: Any) -> dict[str, Tensor]:
    return {RENAMED.get(name, name): value for name, value in result.items() if RENAMED.get(name, name) in SCORES}


def _states(result: Any) -> dict[str, Tensor]:
    """Hidden states of the last stack, where they stand for the same rows as the scores."""
    rows = next(iter(_scores(result).values())).shape[:2]
    states = getattr(result, "decoder_hidden_states", None) or getattr(result, "hidden_states", None) or ()
    if any(state.shape[:2] != rows for state in states):
        return {}
    return {f"hidden_states.{i}": state for i, state in enumerate(states)}


def save_gradients(model: nn.Module, gradients: Mapping[str, Tensor], directory: Path) -> None:
    """Writes gradients in the published layout, as if they were the weights; saved buffers, which have none, are 0.

    Every weight map is a relabelling of entries, so reading this directory back through a map puts each gradient
    beside the parameter it belongs to.
    """
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    places = [*trained, *((n, b) for n, b in model.named_buffers() if b.is_floating_point())]
    kept = {name: value.detach().clone() for name, value in places}
    with torch.no_grad():
        for name, value in places:
            value.copy_(gradients[name]) if name in gradients else value.zero_()
        try:
            save(model, directory)
        finally:
            for name, value in places:
                value.copy_(kept[name])


if __name__ == "__main__":
    from tests.parity.selfcheck import table

    raise SystemExit(min(table(), 1))
