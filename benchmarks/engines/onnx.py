"""ONNX Runtime: transformers' model exported with free axes, all graph optimisations on; int8 weights made by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines.pooled import mean, padded, tokenizer
from benchmarks.harness.batches import by_budget
from benchmarks.harness.texts import read
from benchmarks.harness.worker import THREADS

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def exported(model: str, into: str) -> None:
    """Write ``float32.onnx``, fused by its own optimiser, and ``int8.onnx`` made of that."""
    import onnx
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from transformers import AutoModel

    place = Path(into)
    place.mkdir(parents=True, exist_ok=True)
    network = AutoModel.from_pretrained(model, attn_implementation="eager").eval()

    class States(torch.nn.Module):
        """Tensors in, a tensor out, as a graph has it."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, *given: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = self.network(**dict(zip(INPUTS, given, strict=True))).last_hidden_state
            return states

    given = (torch.ones(2, 8, dtype=torch.long),) * 2 + (torch.zeros(2, 8, dtype=torch.long),)
    free = {name: {0: "batch", 1: "length"} for name in (*INPUTS, "states")}
    plain = str(place / "plain.onnx")
    torch.onnx.export(
        States(), given, plain, input_names=list(INPUTS), output_names=["states"], dynamic_axes=free, dynamo=False
    )
    shape = network.config
    fused = optimizer.optimize_model(
        plain, model_type="bert", num_heads=shape.num_attention_heads, hidden_size=shape.hidden_size, opt_level=0
    )
    fused.save_model_to_file(str(place / "float32.onnx"))
    # The fused operators are of another domain, so that the type of what they make has to be said.
    quantize_dynamic(
        place / "float32.onnx", place / "int8.onnx", weight_type=QuantType.QInt8, per_channel=True,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )  # fmt: skip


def session(graph: str) -> Any:
    """A graph ready to run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def encode(model: str, graph: str, texts: str, longest: int) -> Callable[[], np.ndarray]:
    """Vectors of texts, by a token budget, padded."""
    pieces, run, rows = tokenizer(model, longest), session(graph), read(texts)

    def job() -> np.ndarray:
        ids = [found.ids for found in pieces.encode_batch(rows)]
        vectors: dict[int, np.ndarray] = {}
        for which in by_budget([len(row) for row in ids]):
            batch, mask = padded([ids[i] for i in which])
            states = run.run(None, dict(zip(INPUTS, (batch, mask, np.zeros_like(batch)), strict=True)))[0]
            vectors.update(zip(which, mean(states, mask), strict=True))
        return np.stack([vectors[i] for i in range(len(rows))])

    return job


def one_text(model: str, graph: str) -> Callable[[str], np.ndarray]:
    """The vector of one text, from its characters on."""
    pieces, run = tokenizer(model), session(graph)

    def job(text: str) -> np.ndarray:
        ids, mask = padded([pieces.encode(text).ids])
        return mean(run.run(None, dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True)))[0], mask)

    return job
