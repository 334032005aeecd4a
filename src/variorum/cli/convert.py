"""``variorum convert``: a model from any reference, or from a pickle, as a published directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from variorum.cli.loading import DType, Place
from variorum.cli.output import emit, say

if TYPE_CHECKING:
    from variorum.face import Model

HERE = Place()


def command(
    model: str, out: Path, *, from_pickle: bool = False, dtype: DType | None = None,
    weights: Literal["int8"] | None = None, file: Path | None = None, merge_adapter: Path | None = None,
    kv_heads: int | None = None, place: Place = HERE,
) -> None:  # fmt: skip
    """Write a model as a published directory: config, safetensors, tokenizer.

    Args:
        model: A directory, a GGUF file, a spec's name, or org/name in the cache; with --from-pickle a directory with
            pytorch_model.bin, or such a file.
        out: The directory to write; absent, empty, or an earlier save.
        from_pickle: Read weights in torch's pickled format, in a child process with limits. Only tensors are
            accepted; a file that holds anything else is refused, and nothing is written.
        dtype: What weights are converted to; as they are stored, if absent.
        weights: Write the matrices of the layers as int8, a scale for each output channel, and say what that costs.
        file: A text to measure the cost on; a chapter of Emma if absent.
        merge_adapter: A directory with low-rank adapters in PEFT's layout, to be part of the weights.
        kv_heads: Give a decoder so many heads of keys and values, each the mean of those it stands for; train it on.
    """
    if from_pickle:
        if any(said is not None for said in (dtype, weights, merge_adapter, kv_heads)):
            from variorum.errors import UsageError

            remedy = "leave out --dtype, --weights, --merge-adapter and --kv-heads"
            raise UsageError("--from-pickle keeps every value as it is", remedy=remedy)
        from variorum.checkpoint.convert import from_pickle as read

        _say_pooling(Path(model) if Path(model).is_dir() else Path(model).parent)
        emit(read(Path(model), out))
        return
    from variorum.checkpoint.convert import Converted
    from variorum.cli.loading import check_device
    from variorum.face import load

    check_device(place.device)
    loaded = load(
        model, revision=place.revision, download=place.download, dtype=dtype, device=place.device, adapter=merge_adapter
    )  # fmt: skip
    if loaded.origin.unused:
        say(f"note: {len(loaded.origin.unused)} tensors are not part of what is loaded, and are left out")
    _say_pooling(loaded.origin.directory, said=loaded.origin.pooling is not None)
    if kv_heads is not None:
        from variorum.surgery.grouping import grouped

        loaded = grouped(loaded, kv_heads)
    if weights == "int8":
        emit(_as_int8(loaded, out, file))
        return
    loaded.save(out)
    sizes = [tensor.numel() * tensor.element_size() for _, tensor in loaded.named_tensors()]
    emit(Converted(str(out), len(sizes), sum(sizes)))


def _as_int8(model: Model, out: Path, file: Path | None) -> dict[str, object]:
    """Save, and compare what was saved with what it was made of."""
    import torch

    from variorum.checkpoint import load
    from variorum.inference.harm import harm
    from variorum.text.corpora import austen

    model.save(out, weights="int8")
    found: dict[str, object] = {
        "directory": str(out), "bytes": sum(file.stat().st_size for file in out.glob("*.safetensors")),
    }  # fmt: skip
    if model.tokenizer is None:
        say("note: without a tokenizer there is no text to measure the cost on")
        return found
    text = austen()["Emma"] if file is None else file.read_text("utf-8")
    cost = harm(model.to(torch.float32), load(out, head=model.head_names), text)
    return found | {
        "measure": cost.measure, "before": cost.before, "after": cost.after, "change": f"{cost.relative:+.2%}",
    }  # fmt: skip


def _say_pooling(source: Path, *, said: bool = False) -> None:
    """What a directory of one model has no place for."""
    if said or (source / "modules.json").is_file():
        say("note: how sentences are pooled is not written; it is the mean unless the directory says otherwise")
