"""How time and memory grow with a text's length under a window of 128, from 1,024 to 16,384 tokens.

An exponent of 1 is a cost in proportion to the length, 2 is all tokens against all. Each length runs in a process of
its own, so that its peak of memory is its own; what is computed in tiles is first held against the definition.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.harness.job import Job
from benchmarks.harness.turns import OURS

LENGTHS = (1024, 16_384)
PEERS = (1024, 4096)  # theirs compare all with all, and take minutes beyond
WINDOW, WIDTH, DEPTH, HEADS, VOCAB = 128, 384, 2, 6, 1000
NAMES = {"windowed encoder": "modernbert", "windows and a global token": "longformer"}


class Cost(NamedTuple):
    """Of one forward: processor seconds (the best of three), and bytes beyond the model's own."""

    seconds: float
    extra: int


def measure(quick: bool) -> list[Job]:
    """Ours and the peer at every length, one after the other; ``quick`` leaves the peer out."""
    jobs = []
    for what, name in NAMES.items():
        child("check", name, LENGTHS[0])
        sides = {OURS: LENGTHS} if quick else {OURS: LENGTHS, "transformers": PEERS}
        rows = []
        for engine, lengths in sides.items():
            costs = [cost("ours" if engine == OURS else "peer", name, n) for n in lengths]
            grown = {unit: growth(lengths, costs, field) for unit, field in (("time", "seconds"), ("memory", "extra"))}
            rows.append({"engine": engine, "up to tokens": lengths[1], **grown, "seconds": costs[1].seconds,
                         "MB beyond the model": costs[1].extra / 1e6})  # fmt: skip
        figures = {unit: float(rows[0][unit]) for unit in ("time", "memory")}
        facts = {"what": what, "window": WINDOW, "from tokens": LENGTHS[0]}
        jobs.append(Job(name=f"length-{name}", figures=figures, sides=rows, facts=facts))
    return jobs


def growth(lengths: tuple[int, int], costs: list[Cost], field: str) -> float:
    """The power of the length that a cost follows from the shorter to the longer text."""
    first, last = (float(getattr(one, field)) for one in costs)
    return math.log(last / first, lengths[1] / lengths[0])


def cost(side: str, name: str, length: int) -> Cost:
    """What one text of ``length`` tokens costs."""
    return Cost(**json.loads(child(side, name, length)))


def child(side: str, name: str, length: int) -> str:
    """The last line that a process of its own prints; its failure is an error."""
    line = [sys.executable, "-m", "benchmarks.length", side, name, str(length)]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def ours(name: str, backend: str = "auto") -> Callable[[Any], Any]:
    """Our model of that name, small and with a window in every layer."""
    from variorum.builder import build
    from variorum.family import find

    stack, rows = "architecture.encoder", LENGTHS[-1] + 2
    values = {f"{stack}.{path}": value for path, value in _sizes(name, rows).items()}
    model = build(find(name).set({"architecture.width": WIDTH, **values}))
    model.backend = backend
    return lambda ids: model(ids, **_given(name, ids))


def _sizes(name: str, rows: int) -> dict[str, object]:
    sizes: dict[str, object] = {
        "depth": DEPTH, "input.vocab": VOCAB, "input.pad_id": 1, "block.attention.window": WINDOW,
        "block.attention.heads": HEADS, "block.attention.kv_heads": HEADS, "block.attention.head_dim": WIDTH // HEADS,
        "block.feedforward.width": 4 * WIDTH,
    }  # fmt: skip
    return sizes | ({"input.positions.rows": rows} if name == "longformer" else {"pattern": ()})


def _given(name: str, ids: Any) -> dict[str, Any]:
    """Longformer's first token sees all."""
    import torch

    places = torch.arange(ids.shape[1])[None]
    return {"global_attention_mask": (places == 0).long()} if name == "longformer" else {}


def peer(name: str) -> Callable[[Any], Any]:
    """The published class of the same shape."""
    import transformers

    shape: dict[str, Any] = {
        "hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS, "intermediate_size": 4 * WIDTH,
        "vocab_size": VOCAB, "max_position_embeddings": LENGTHS[-1] + 2, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2,
    }  # fmt: skip
    if name == "longformer":
        long = transformers.LongformerConfig(**shape, attention_window=WINDOW)
        model = transformers.LongformerModel(long).eval()
    else:
        layers = ["sliding_attention"] * DEPTH
        model = transformers.ModernBertModel(
            transformers.ModernBertConfig(**shape, local_attention=WINDOW, layer_types=layers)
        ).eval()
    return lambda ids: model(ids, **_given(name, ids))


def text(length: int) -> Any:
    """Ids [1, length] without padding."""
    import torch

    return torch.arange(length)[None] % (VOCAB - 10) + 5


def check(name: str, length: int) -> None:
    """Tiles give what all pairs give."""
    import torch

    with torch.no_grad():
        fast, whole = (ours(name, backend)(text(length)).last_hidden_state for backend in ("auto", "eager"))
    apart = float((fast - whole).abs().max())
    if not apart < 1e-4:
        raise SystemExit(f"tiles differ from the definition by {apart:.1e}")
    print(f"tiles and definition agree to {apart:.0e}")


def run(side: str, name: str, length: int) -> Cost:
    """In this process: one model, one length."""
    import torch

    torch.set_num_threads(1)
    forward, ids = {"ours": ours, "peer": peer}[side](name), text(length)
    seconds = []
    with torch.no_grad():
        forward(ids[:, : LENGTHS[0] // 4])
        before = _peak()
        for _ in range(3):
            begin = time.process_time()
            forward(ids)
            seconds.append(time.process_time() - begin)
    return Cost(min(seconds), max(_peak() - before, 1))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    asked, kind, tokens = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if asked == "check":
        check(kind, tokens)
    else:
        print(json.dumps(run(asked, kind, tokens)._asdict()))
