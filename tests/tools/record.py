"""Records what every module of a published model puts out, for `variorum trace MODEL --against acts.safetensors`.

    python -m tests.tools.record DIR --ids 5,6,7 --out acts.safetensors
    python -m tests.tools.record DIR --text "The cat sat" --out acts.safetensors

The file holds one tensor per module name and call, in the order of the calls: `encoder.layer.0.output` for the
first call of a module, `encoder.layer.0.output#1` for its second (shared layers are called once per use). The
inputs are stored as `input.input_ids` and so on, the order of the calls and the published class in the metadata.
With `--dtype float64` the model runs as the parity oracle does.

This uses `transformers` and is a tool of the tests; the product only reads the file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tests.parity import oracle


@contextlib.contextmanager
def recording(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Inside, each module's (first tensor of) output is added to the yielded dict, in order of the calls."""
    seen: dict[str, Tensor] = {}

    def keep(name: str, output: Any) -> None:
        tensor = _first_tensor(output)
        if tensor is None:
            return
        uses = sum(1 for key in seen if key.split("#")[0] == name)
        seen[f"{name}#{uses}" if uses else name] = tensor.detach().clone().contiguous()

    handles = [
        module.register_forward_hook(lambda _module, _inputs, output, name=name: keep(name, output))
        for name, module in model.named_modules()
        if name
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _first_tensor(output: Any) -> Tensor | None:
    if isinstance(output, Tensor):
        return output
    values = output.values() if isinstance(output, Mapping) else output if isinstance(output, list | tuple) else ()
    return next((value for value in values if isinstance(value, Tensor)), None)


def record(model: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Named activations of one forward pass, the scores of the whole model last, as `logits` and so on."""
    with torch.no_grad(), recording(model) as seen:
        result = model(**inputs)
    scores = {name: value.detach().clone() for name, value in result.items() if name in oracle.SCORES}
    return {**seen, **scores}


def write(activations: Mapping[str, Tensor], inputs: Mapping[str, Tensor], kind: str, out: Path) -> None:
    """One safetensors file; safetensors sorts names, so the order of the calls is kept in the metadata."""
    stored = {**{f"input.{name}": value for name, value in inputs.items()}, **activations}
    metadata = {"format": "pt", "class": kind, "order": json.dumps(list(activations))}
    save_file({name: value.contiguous() for name, value in stored.items()}, out, metadata=metadata)


def read_inputs(directory: Path, text: str | None, ids: str | None) -> dict[str, Tensor]:
    """The token ids given, or those of the text by the directory's own tokenizer."""
    if ids is not None:
        return {"input_ids": torch.tensor([[int(one) for one in ids.replace(",", " ").split()]])}
    from transformers import AutoTokenizer

    return dict(AutoTokenizer.from_pretrained(directory)(text, return_tensors="pt"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.record", description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="a published directory: config.json and safetensors")
    given = parser.add_mutually_exclusive_group(required=True)
    given.add_argument("--text", help="read through the directory's own tokenizer")
    given.add_argument("--ids", help="token ids, separated by commas or spaces")
    parser.add_argument("--out", type=Path, required=True, help="the safetensors file to write")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    options = parser.parse_args(arguments)

    kind = json.loads((options.directory / "config.json").read_text())["architectures"][0]
    inputs = read_inputs(options.directory, options.text, options.ids)
    if options.dtype == "float64":
        with oracle.exact():
            activations = record(oracle.load64(options.directory, kind), inputs)
    else:
        activations = record(oracle.load32(options.directory, kind), inputs)
    write(activations, inputs, kind, options.out)
    print(f"{len(activations)} activations of {kind} in {options.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
