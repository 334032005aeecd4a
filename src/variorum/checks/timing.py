"""What is told in seconds: measured and printed with its spread, and judged only by what no machine changes."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from variorum.attention.cache import Cache
from variorum.builder import build
from variorum.checks.finding import Finding, equal, measured, near
from variorum.checks.subjects import nano, words
from variorum.family import find
from variorum.model import Model
from variorum.parts.norms import build_norm
from variorum.spec.model import Model as Spec
from variorum.spec.norms import LayerNorm, RMSNorm
from variorum.spec.size import size

ROUNDS = 15
WRITTEN, WRITING = 24, (16, 48)
LENGTHS = (512, 2048)
WINDOW = 64
PROJECTIONS = (torch.ops.aten.mm, torch.ops.aten.addmm)
FUSED = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def ratios(one: Callable[[], object], other: Callable[[], object]) -> list[float]:
    """Seconds of ``one`` over those of ``other``, run in turns: the median of the rounds, the least and the most."""
    one(), other()
    found = sorted(_seconds(one) / _seconds(other) for _ in range(ROUNDS))
    return [statistics.median(found), found[0], found[-1]]


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@torch.no_grad()
def rmsnorm_time() -> Iterator[Finding]:
    """C13: how long RMSNorm takes beside LayerNorm, and that it does less."""
    x = torch.randn(8, 256, 768, generator=torch.Generator().manual_seed(0))
    rms, layer = build_norm(RMSNorm(eps=1e-6), 768), build_norm(LayerNorm(eps=1e-5), 768)
    how = (
        f"{list(x.shape)} float32, {ROUNDS} rounds in turns; the paper saves models 7 to 64 %, often told as 10 to 15 %"
    )
    yield measured(
        "RMSNorm over LayerNorm, seconds: median, least, most", ratios(lambda: rms(x), lambda: layer(x)), how
    )
    trained = [sum(p.numel() for p in norm.parameters()) for norm in (rms, layer)]
    yield equal("numbers that each learns", trained, [768, 2 * 768], "a gain, and a gain and a bias")
    big = torch.full((1, 768), 400.0, dtype=torch.float16)
    how = (
        "an input of 400 in float16, whose square is beyond its 65,504: in the input's own type it would come out as 0"
    )
    yield near("RMSNorm of large half-precision numbers", float(rms.half()(big)[0, 0]), 1.0, how, within=1e-3)


@torch.no_grad()
def encoder_latency() -> Iterator[Finding]:
    """C14: an encoder reads a text in one pass, a decoder writes one with a pass for each token."""
    encoder, decoder = build(nano(find("bert"))), build(nano(find("gpt2")), head="causal_lm")
    ids = words(1, WRITTEN)
    passes: list[int] = []
    decoder.decoder.register_forward_hook(lambda module, given, out: passes.append(len(passes)))
    how = f"nano GPT-2 writing {WRITTEN} tokens from a cache, nano BERT reading as many; {ROUNDS} rounds in turns"
    spent = ratios(lambda: _write(decoder, WRITTEN), lambda: encoder(ids))
    yield measured("writing over reading, seconds: median, least, most", spent, how)
    passes.clear()
    _write(decoder, WRITTEN)
    yield equal("passes to write a text", len(passes), WRITTEN, f"forward passes of the decoder for {WRITTEN} tokens")
    work = 128 * size(find("bert-base-uncased"), head=None, context=128).flops / 1e9
    how = "BERT-base, 128 tokens; in the 5 ms that are often told for a processor it would be 4.5 TFLOP/s"
    yield near("operations behind one answer, GFLOP", work, 22.35, how, within=0.01)


@torch.no_grad()
def cache_time() -> Iterator[Finding]:
    """G6: with a cache the work of writing grows as the text, without one as its square."""
    model = build(nano(find("gpt2")), head="causal_lm")
    few, many = WRITING
    for name, write, power in (("with a cache", _write, 1.0), ("without", _write_again, 2.0)):
        grown = math.log(_operations(write, model, many) / _operations(write, model, few), many / few)
        how = f"operations that torch counts in writing {few} and {many} tokens with nano GPT-2"
        yield near(f"{name}: work grows as n to the", grown, power, how, within=0.1)
    spent = ratios(lambda: _write_again(model, many), lambda: _write(model, many))
    how = f"{many} tokens written, {ROUNDS} rounds in turns"
    yield measured("without a cache over with one, seconds: median, least, most", spent, how)


def _write(model: Model, length: int) -> None:
    """As many tokens, each from the cache of those before it."""
    ids, cache = words(1, length), Cache()
    for at in range(length):
        model(ids[:, at : at + 1], cache=cache)


def _write_again(model: Model, length: int) -> None:
    """As many tokens, all before each read once more."""
    ids = words(1, length)
    for at in range(length):
        model(ids[:, : at + 1], logits_to_keep=1)


def _operations(write: Callable[[Model, int], None], model: Model, length: int) -> int:
    with FlopCounterMode(display=False, custom_mapping={FUSED: _fused}) as counter:
        write(model, length)
    return counter.get_total_flops()


@torch.no_grad()
def length_exponent() -> Iterator[Finding]:
    """C18: attention over all pairs grows with the square of the length, over a window with the length."""
    whole = build(_one_layer(find("bert")))
    near_by = build(_one_layer(find("longformer").set({"architecture.encoder.block.attention.window": WINDOW})))
    for name, model, power in (("all pairs", whole, 2.0), (f"a window of {WINDOW}", near_by, 1.0)):
        few, many = (_attention_flops(model, length) for length in LENGTHS)
        grown = math.log(many / few, LENGTHS[1] / LENGTHS[0])
        how = f"multiplications of scores and of values that torch counts, {LENGTHS[0]:,} to {LENGTHS[1]:,} tokens"
        yield near(f"{name}: operations grow as n to the", grown, power, how, within=0.05)
        seconds = ratios(lambda: model(words(1, LENGTHS[1])), lambda: model(words(1, LENGTHS[0])))  # noqa: B023
        how = f"one layer of width 128, with its projections; {ROUNDS} rounds in turns"
        powers = [math.log(ratio, LENGTHS[1] / LENGTHS[0]) for ratio in seconds]
        yield measured(f"{name}: seconds grow as n to the: median, least, most", powers, how)


def _one_layer(spec: Spec) -> Spec:
    rows = getattr(spec.architecture.main.input.positions, "offset", 0) + LENGTHS[-1]
    return nano(spec).set({"architecture.encoder.depth": 1, "architecture.encoder.input.positions.rows": rows})


def _attention_flops(model: Model, length: int) -> int:
    """Operations of products of two activations: those of projections have a weight on one side."""
    with FlopCounterMode(display=False, custom_mapping={FUSED: _fused}) as counter:
        model(words(1, length))
    counted = counter.get_flop_counts()["Global"]
    return sum(count for operation, count in counted.items() if operation not in PROJECTIONS)


def _fused(query: Sequence[int], key: Sequence[int], value: Sequence[int], *others: object, **more: object) -> int:
    """Operations of torch's fused attention on a processor, which its own counter leaves out."""
    return sdpa_flop_count(query, key, value)
