"""How time and memory grow with a text's length under a window of 128, from 1,024 to 16,384 tokens.

An exponent of 1 is a cost in proportion to the length, 2 is all tokens against all; it is fitted to three lengths. Each
length runs in a process of its own, so that its peak of memory is its own; what is computed is first held against the
definition.
"""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.harness.job import Job
from benchmarks.harness.turns import OURS

LENGTHS = (1024, 4096, 16_384)
PEERS = (1024, 4096)  # theirs compare all with all, and take minutes beyond
PEER = "transformers"
WINDOW, WIDTH, DEPTH, HEADS, VOCAB = 128, 384, 2, 6, 1000


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, small and with a window in every layer, that reads a text: alone, or as a prompt that it will continue.

    Args:
        model: of which family.
        stack: which of its stacks.
        kv_heads: of its attention.
        sizes: fields of the stack beside those that all have.
        prompt: whether what it reads is kept for going on.
    """

    model: str
    stack: str
    kv_heads: int = HEADS
    sizes: tuple[tuple[str, object], ...] = (("pattern", ()),)
    prompt: bool = False


MISTRAL, GEMMA = Case("mistral", "decoder", kv_heads=2), Case("gemma-3", "decoder", kv_heads=2)
CASES = {
    "modernbert": Case("modernbert", "encoder"),
    "longformer": Case("longformer", "encoder", sizes=(("input.positions.rows", LENGTHS[-1] + 2),)),
    "mistral": MISTRAL,
    "gemma-3": GEMMA,
    "mistral-prompt": dataclasses.replace(MISTRAL, prompt=True),
    "gemma-3-prompt": dataclasses.replace(GEMMA, prompt=True),
}


class Cost(NamedTuple):
    """Of one text: processor seconds (the best of three), and bytes beyond the model's own."""

    seconds: float
    extra: int


def measure(quick: bool) -> list[Job]:
    """Ours and the peer at every length, one after the other; ``quick`` leaves the peer out."""
    jobs = []
    for name, case in CASES.items():
        agreed = child("check", name, LENGTHS[0])
        sides = {OURS: LENGTHS} if quick else {OURS: LENGTHS, PEER: PEERS}
        rows = []
        for engine, lengths in sides.items():
            costs = [Cost(**json.loads(child(engine, name, length))) for length in lengths]
            grown = {unit: growth(lengths, [getattr(one, field) for one in costs])
                     for unit, field in (("time", "seconds"), ("memory", "extra"))}  # fmt: skip
            rows.append({"engine": engine, "up to tokens": lengths[-1], **grown, "seconds": costs[-1].seconds,
                         "MB beyond the model": costs[-1].extra / 1e6})  # fmt: skip
        figures = {unit: float(rows[0][unit]) for unit in ("time", "memory")}
        facts = {"model": case.model, "reads": "a prompt" if case.prompt else "a text", "window": WINDOW,
                 "from tokens": LENGTHS[0], "beside the definition": agreed}  # fmt: skip
        jobs.append(Job(name=f"length-{name}", figures=figures, sides=rows, facts=facts))
    return jobs


def growth(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """The power of the length that a cost follows: the slope of its logarithm over that of the length."""
    return statistics.linear_regression([math.log(n) for n in lengths], [math.log(cost) for cost in costs]).slope


def child(side: str, name: str, length: int) -> str:
    """The last line that a process of its own prints; its failure is an error."""
    line = [sys.executable, "-m", "benchmarks.length", side, name, str(length)]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def ours(name: str, backend: str = "auto") -> Callable[[Any], Any]:
    """What reads ids [1, T]: states of a text, or scores of what follows a prompt."""
    from variorum.builder import build
    from variorum.family import find
    from variorum.inference.writer import Writer

    case = CASES[name]
    values = {f"architecture.{case.stack}.{path}": value for path, value in (_sizes(case) | dict(case.sizes)).items()}
    spec = find(case.model).set({"architecture.width": WIDTH, **values})
    model = build(spec, head="causal_lm" if case.prompt else None)
    model.backend = backend
    if not case.prompt:
        return lambda ids: model(ids, **_given(name, ids)).last_hidden_state
    if backend == "eager":
        return lambda ids: model(ids, logits_to_keep=1).logits[:, 0]
    return lambda ids: Writer(model, ids.tolist()).logits


def _sizes(case: Case) -> dict[str, object]:
    attention = {"window": WINDOW, "heads": HEADS, "kv_heads": case.kv_heads, "head_dim": WIDTH // HEADS}
    return {
        "depth": DEPTH, "input.vocab": VOCAB, "input.pad_id": 1, "block.feedforward.width": 4 * WIDTH,
        **{f"block.attention.{key}": value for key, value in attention.items()},
    }  # fmt: skip


def _given(name: str, ids: Any) -> dict[str, Any]:
    """Longformer's first token sees all."""
    import torch

    places = torch.arange(ids.shape[1])[None]
    return {"global_attention_mask": (places == 0).long()} if name == "longformer" else {}


def peer(name: str) -> Callable[[Any], Any]:
    """The published class of the same shape."""
    import transformers

    case = CASES[name]
    shape: dict[str, Any] = {
        "hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS, "intermediate_size": 4 * WIDTH,
        "vocab_size": VOCAB, "max_position_embeddings": LENGTHS[-1] + 2, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2,
    }  # fmt: skip
    windows: dict[str, Any] = {
        "longformer": {"attention_window": WINDOW},
        "modernbert": {"local_attention": WINDOW},
        "mistral": {"sliding_window": WINDOW, "num_key_value_heads": case.kv_heads},
        "gemma-3": {"sliding_window": WINDOW, "num_key_value_heads": case.kv_heads, "head_dim": WIDTH // HEADS},
    }
    kinds = {"longformer": "Longformer", "modernbert": "ModernBert", "mistral": "Mistral", "gemma-3": "Gemma3Text"}
    layers = {} if case.model in ("longformer", "mistral") else {"layer_types": ["sliding_attention"] * DEPTH}
    kind = kinds[case.model]
    config = getattr(transformers, f"{kind}Config")(**shape, **windows[case.model], **layers)
    model = getattr(transformers, f"{kind}Model")(config).eval()
    kept = {} if case.stack == "encoder" else {"use_cache": case.prompt}
    return lambda ids: model(ids, **_given(name, ids), **kept)


def text(length: int) -> Any:
    """Ids [1, length] without padding."""
    import torch

    return torch.arange(length)[None] % (VOCAB - 10) + 5


def check(name: str, length: int) -> str:
    """How far what is measured is from all pairs at once."""
    import torch

    with torch.no_grad():
        fast, whole = (ours(name, backend)(text(length)) for backend in ("auto", "eager"))
    apart = float((fast - whole).abs().max())
    if not apart < 1e-4:
        raise SystemExit(f"{name} differs from the definition by {apart:.1e}")
    return f"{apart:.0e}"


def run(side: str, name: str, length: int) -> Cost:
    """In this process: one model, one length."""
    import torch

    torch.set_num_threads(1)
    read, ids = {OURS: ours, PEER: peer}[side](name), text(length)
    seconds = []
    with torch.no_grad():
        read(ids[:, :16])
        before = _peak()
        for _ in range(3):
            begin = time.process_time()
            read(ids)
            seconds.append(time.process_time() - begin)
    return Cost(min(seconds), max(_peak() - before, 1))


def _peak() -> int:
    from variorum.inference.peak import peak_bytes

    return peak_bytes()


if __name__ == "__main__":
    asked, kind, tokens = sys.argv[1], sys.argv[2], int(sys.argv[3])
    print(check(kind, tokens) if asked == "check" else json.dumps(run(asked, kind, tokens)._asdict()))
