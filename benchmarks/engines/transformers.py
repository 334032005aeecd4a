"""transformers with SDPA: texts in arrival order, 32 at a time, as people run it, and sorted by a token budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.harness.batches import by_budget, in_arrival_order
from benchmarks.harness.texts import read


def encode(model: str, texts: str, order: str, longest: int) -> Callable[[], np.ndarray]:
    """Vectors of texts, the mean of their tokens at length 1. ``order`` is "arrival" or "budget"."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    rows = read(texts)

    @torch.inference_mode()
    def job() -> np.ndarray:
        if order == "arrival":
            batches = in_arrival_order(len(rows))
        else:
            lengths = [len(ids) for ids in tokenizer(rows, truncation=True, max_length=longest)["input_ids"]]
            batches = by_budget(lengths)
        out = np.empty((len(rows), network.config.hidden_size), np.float32)
        for which in batches:
            given = tokenizer(
                [rows[i] for i in which], padding=True, truncation=True, max_length=longest, return_tensors="pt"
            )
            states, mask = network(**given).last_hidden_state, given["attention_mask"][..., None]
            mean = (states * mask).sum(1) / mask.sum(1)
            out[which] = torch.nn.functional.normalize(mean, dim=-1).numpy()
        return out

    return job


def one_text(model: str) -> Callable[[str], np.ndarray]:
    """The vector of one text, from its characters on."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()

    @torch.inference_mode()
    def job(text: str) -> np.ndarray:
        states = network(**tokenizer(text, return_tensors="pt")).last_hidden_state
        found: np.ndarray = torch.nn.functional.normalize(states.mean(1), dim=-1).numpy()
        return found

    return job


def write(model: str, prompts: Sequence[Sequence[int]], new: int) -> Callable[[], list[list[int]]]:
    """The likeliest ``new`` tokens after each prompt; prompts of unequal lengths are padded on the left."""
    import torch
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    network.generation_config.eos_token_id = None
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in prompts])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])

    @torch.inference_mode()
    def job() -> list[list[int]]:
        found: Any = network.generate(
            ids, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, do_sample=False, pad_token_id=0
        )
        rows: list[list[int]] = found[:, longest:].tolist()
        return rows

    return job


def load(model: str) -> Callable[[bool], float | None]:
    """The call that loads a model; with ``read`` every weight is read once after it, and their sum returned."""
    from transformers import BertModel

    def job(read: bool) -> float | None:
        network = BertModel.from_pretrained(model)
        return sum(float(p.sum()) for p in network.parameters()) if read else None

    return job
