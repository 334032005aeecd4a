"""``variorum convert``: a model from any reference, or from a pickle, as a published directory."""

from __future__ import annotations

from pathlib import Path

from variorum.cli.loading import DType, Place
from variorum.cli.output import emit, say

HERE = Place()


def command(
    model: str, out: Path, *, from_pickle: bool = False, dtype: DType | None = None, place: Place = HERE
) -> None:
    """Write a model as a published directory: config, safetensors, tokenizer.

    Args:
        model: A directory, a GGUF file, a spec's name, or org/name in the cache; with --from-pickle a directory with
            pytorch_model.bin, or such a file.
        out: The directory to write; absent, empty, or an earlier save.
        from_pickle: Read weights in torch's pickled format, in a child process with limits. Only tensors are
            accepted; a file that holds anything else is refused, and nothing is written.
        dtype: What weights are converted to; as they are stored, if absent.
    """
    if from_pickle:
        if dtype is not None:
            from variorum.errors import UsageError

            raise UsageError("--from-pickle keeps every value as it is", remedy="leave out --dtype")
        from variorum.checkpoint.convert import from_pickle as read

        _say_pooling(Path(model) if Path(model).is_dir() else Path(model).parent)
        emit(read(Path(model), out))
        return
    from variorum.checkpoint.convert import Converted
    from variorum.cli.loading import check_device
    from variorum.face import load

    check_device(place.device)
    loaded = load(model, revision=place.revision, download=place.download, dtype=dtype, device=place.device)
    if loaded.origin.unused:
        say(f"note: {len(loaded.origin.unused)} tensors are not part of what is loaded, and are left out")
    _say_pooling(loaded.origin.directory, said=loaded.origin.pooling is not None)
    loaded.save(out)
    sizes = [tensor.numel() * tensor.element_size() for _, tensor in loaded.named_tensors()]
    emit(Converted(str(out), len(sizes), sum(sizes)))


def _say_pooling(source: Path, *, said: bool = False) -> None:
    """What a directory of one model has no place for."""
    if said or (source / "modules.json").is_file():
        say("note: how sentences are pooled is not written; it is the mean unless the directory says otherwise")
