"""Fine-tuning to classes and answering, ours and transformers': same weights, rows, dropout and optimiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.engines.steps import STEPS, batches
from benchmarks.harness.batches import by_budget, in_arrival_order
from benchmarks.harness.texts import read

RATE, BETAS, EPS, DECAY, CLIP = 5e-5, (0.9, 0.999), 1e-8, 0.01, 1.0


def ours(model: str, data: str, steps: int = 1) -> Callable[[], list[float]]:
    """Steps of the engine that every task is fine-tuned by; the job returns their losses."""
    import variorum
    from variorum.objectives.labels import Labels
    from variorum.training.loop import Trainer
    from variorum.training.optimiser import Optimisation

    network, given = variorum.load(model), trimmed(data)
    settings = Optimisation(
        steps=STEPS, rate=RATE, warmup=0, decay="constant", betas=BETAS, eps=EPS, weight_decay=DECAY, clip=CLIP
    )
    trainer = Trainer(network, Labels(), lambda step: [given[step % len(given)]], settings, seed=0)
    return lambda: [trainer.advance().loss for _ in range(steps)]


def theirs(model: str, data: str, steps: int = 1) -> Callable[[], list[float]]:
    """The same by a plain loop over transformers' model."""
    import torch
    from transformers import AutoModelForSequenceClassification

    network = AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32).train()
    given, parameters = trimmed(data), list(network.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": DECAY},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPS, fused=True)
    done = [0]

    def step() -> float:
        loss = network(**given[done[0] % len(given)]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        done[0] += 1
        return float(loss)

    return lambda: [step() for _ in range(steps)]


def our_answers(model: str, texts: str, longest: int) -> Callable[[], np.ndarray]:
    """Probabilities of texts, from their characters on."""
    import variorum
    from variorum.tasks.scores import scores

    network, rows = variorum.load(model), read(texts)
    return lambda: scores(network, network.tokenizer.encode_batch(rows, max_length=longest)).softmax(-1).numpy()


def their_answers(model: str, texts: str, longest: int, order: str) -> Callable[[], np.ndarray]:
    """The same by transformers; ``order`` is "arrival" or "budget"."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer, rows = AutoTokenizer.from_pretrained(model), read(texts)
    network = AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32).eval()

    @torch.inference_mode()
    def job() -> np.ndarray:
        if order == "arrival":
            groups = in_arrival_order(len(rows))
        else:
            groups = by_budget([len(ids) for ids in tokenizer(rows, truncation=True, max_length=longest)["input_ids"]])
        out = np.empty((len(rows), network.config.num_labels), np.float32)
        for which in groups:
            given = tokenizer(
                [rows[i] for i in which], padding=True, truncation=True, max_length=longest, return_tensors="pt"
            )
            out[which] = network(**given).logits.softmax(-1).numpy()
        return out

    return job


def trimmed(data: str) -> list[dict[str, Any]]:
    """The batches of a file, each as long as its longest row."""
    made = []
    for batch in batches(data):
        longest = int(batch["attention_mask"].sum(-1).max())
        made.append({name: value[:, :longest] if value.dim() == 2 else value for name, value in batch.items()})
    return made
