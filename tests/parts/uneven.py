"""One of two processes that train one Mixtral together for twenty steps, on very different texts.

``python -m tests.parts.uneven ADDRESS RANK`` prints the sum of the parameters, the experts used, and the seconds taken.
"""

from __future__ import annotations

import json
import sys
import time

import torch

from tests.tiny_specs import tiny, words
from variorum.builder import build


def main(address: str, rank: int) -> None:
    """Rank 0 reads twenty different texts, rank 1 one word again and again."""
    torch.distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    torch.set_num_threads(1)
    started = time.monotonic()
    model = build(tiny("mixtral", {"architecture.decoder.depth": 1}), head="causal_lm")
    used: set[int] = set()
    model.decoder.layers[0].feedforward.router.register_forward_hook(
        lambda module, args, out: used.update(out[1].flatten().tolist())
    )
    together = torch.nn.parallel.DistributedDataParallel(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(20):
        ids = words(4, 9, seed=step) if rank == 0 else torch.tensor([[7, 7]])
        together(ids, labels=ids).loss.backward()
        optimiser.step()
        optimiser.zero_grad()
    total = float(sum(p.detach().double().sum() for p in model.parameters()))
    print(json.dumps({"parameters": total, "used": sorted(used), "seconds": time.monotonic() - started}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
