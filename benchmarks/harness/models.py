"""The checkpoints that are measured, as published directories: real weights where there are, else of the shape.

Made once a run, in its scratch folder. Shapes without real weights get values that are random, and large enough for
every part of the model to show in its answer.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

from benchmarks.harness.worker import Broken, Missing, Worker

#: GPT-2's own tokens are not needed to write ids; these stand for them where an engine asks for words.
WORD = "t{}"


def fetched(name: str) -> Path:
    """The folder of published weights that ``make fetch`` brings.

    Raises:
        Missing: they were not fetched.
    """
    from tests.tools import weights

    folder = weights.path(name)
    if folder is None:
        raise Missing(f"the weights of {name} are not here; `make fetch` brings them")
    return folder


def minilm() -> Path:
    """MiniLM-L6, real."""
    return fetched("minilm")


def bert_base(scratch: Path) -> Path:
    """BERT-base's shape with MiniLM's tokenizer, which is BERT's own; pooled as MiniLM is."""
    place = scratch / "bert-base"
    if not place.exists():
        saved(place, "bert-base-uncased", {}, None)
        source = minilm()
        for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json",
                     "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):  # fmt: skip
            shutil.copy(source / name, place / name)
        shutil.copytree(source / "1_Pooling", place / "1_Pooling")
        (place / "2_Normalize").mkdir()
    return place


def gpt2(scratch: Path) -> Path:
    """GPT-2's shape."""
    place = scratch / "gpt2"
    if not place.exists():
        saved(place, "gpt2", {}, "causal_lm")
    return place


def smollm2(scratch: Path) -> Path:
    """SmolLM2-135M as published, real: float32 of what its GGUF holds."""
    place = scratch / "smollm2"
    if not place.exists():
        import variorum

        variorum.load(smollm2_gguf(), dtype="float32").save(place)
    return place


def smollm2_gguf() -> Path:
    """The GGUF that the weights of :func:`smollm2` come from."""
    return next(fetched("smollm2").glob("*.gguf"))


def saved(place: Path, name: str, values: dict[str, object], head: str | None, *, plain: bool = False) -> None:
    """A model of a spec with these values, in its published layout: random in every parameter, or ``plain``, as a
    training run would begin."""
    import torch

    import variorum

    model = variorum.build(variorum.architecture(name).set(values), head=head)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for path, value in () if plain else model.named_tensors():
            noise = torch.randn(value.shape, generator=generator)
            table = isinstance(model.get_submodule(path.rpartition(".")[0]), torch.nn.Embedding)
            if value.dim() < 2:
                value.add_(0.1 * noise)
            else:
                value.copy_(noise * (0.5 if table else value.shape[-1] ** -0.5))
    model.save(place)
    (place / "variorum-manifest.json").unlink()  # published directories have none, and it takes time to verify


def with_words(model: Path, vocab: int, place: Path) -> Path:
    """A copy of a directory, by links, with a tokenizer in which token ``i`` is the word ``t<i>``."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    place.mkdir()
    for file in model.iterdir():
        if not file.name.startswith(("tokenizer", "special_tokens", "vocab", "merges")):
            (place / file.name).symlink_to(file.resolve())
    words: Any = WordLevel({WORD.format(i): i for i in range(vocab)}, unk_token=WORD.format(0))
    ends = {"bos_token": WORD.format(vocab - 1), "eos_token": WORD.format(vocab - 1), "unk_token": WORD.format(0)}
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), **ends).save_pretrained(place)
    return place


def prepared(what: str, **given: str) -> None:
    """Let an engine write its own form of a model, in a process that ends with it; what it cannot write it lacks later.

    Args:
        what: the function that writes, ``"module:function"``.
        given: its arguments.
    """
    worker = Worker()
    with contextlib.suppress(Missing, Broken):
        worker.make(what, given)
    worker.close()
