"""llama.cpp through its Python package, reading the weights that all others have: float32, or its own Q8_0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.worker import THREADS

LARGEST = 512


def converted(source: str, into: str) -> None:
    """Write ``float32.gguf`` and ``int8.gguf`` from a GGUF of any type, all that describes the model taken over."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(source)
    Path(into).mkdir(parents=True, exist_ok=True)
    kinds = {"float32": gguf.GGMLQuantizationType.F32, "int8": gguf.GGMLQuantizationType.Q8_0}
    architecture = str(reader.get_field("general.architecture").contents())
    for weights, kind in kinds.items():
        writer = gguf.GGUFWriter(f"{into}/{weights}.gguf", architecture)
        for field in reader.fields.values():
            own = field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type")
            if not own:
                inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
                writer.add_key_value(field.name, field.contents(), field.types[0], inner)
        for tensor in reader.tensors:
            value = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            if value.ndim < 2 or kind == gguf.GGMLQuantizationType.F32:
                writer.add_tensor(tensor.name, value)
            else:
                writer.add_tensor(tensor.name, gguf.quants.quantize(value, kind), raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def write(model: str, prompts: Sequence[Sequence[int]], new: int) -> Callable[[], list[list[int]]]:
    """The likeliest ``new`` tokens after the one prompt."""
    import llama_cpp

    _without_tiles(llama_cpp.llama_cpp)
    network = llama_cpp.Llama(
        model, n_ctx=LARGEST, n_threads=THREADS, n_threads_batch=THREADS, n_gpu_layers=0, verbose=False
    )
    (prompt,) = prompts

    def job() -> list[list[int]]:
        network.reset()
        row: list[int] = []
        for token in network.generate(list(prompt), temp=0.0, repeat_penalty=1.0, reset=True):
            row.append(int(token))
            if len(row) == new:
                break
        return [row]

    return job


def _without_tiles(library: Any) -> None:
    """Load weights as they are on disk: its AMX kernels, which need them repacked, fault in some virtual machines.

    What reads one token at a time is bound by memory, and has no use for tiles.
    """
    defaults = library.llama_model_default_params

    def chosen() -> Any:
        found = defaults()
        found.use_extra_bufts = False
        return found

    library.llama_model_default_params = chosen
