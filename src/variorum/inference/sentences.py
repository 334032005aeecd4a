"""How a text becomes one vector: the files of sentence-transformers, a GGUF file's word, or the spec's own head.

It reads and decides; :mod:`.encode` runs the model.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from variorum.checkpoint import files
from variorum.errors import DamagedFile, NotFound, nearest
from variorum.model import Model
from variorum.spec.heads import EmbeddingHead, Take

#: What sentence-transformers calls the vectors that can be taken; before version 6 each was a switch of its own.
POOLING: dict[str, Take] = {"mean": "mean", "cls": "first", "lasttoken": "last", "max": "max"}
SWITCHES = {
    "pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "lasttoken",
    "pooling_mode_max_tokens": "max",
}  # fmt: skip

MEAN = EmbeddingHead(take="mean")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a model makes vectors of texts.

    ``longest`` is the most tokens of a text that are read. ``prompts`` are put before a text, by name; ``prompt`` names
    the one that is put there unless another is asked for. Without ``counts_prompt`` its tokens are read, not pooled.
    """

    head: EmbeddingHead = MEAN
    longest: int | None = None
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    prompt: str | None = None
    counts_prompt: bool = True

    def before(self, name: str | None, where: str) -> str:
        """What is put before a text.

        Raises:
            NotFound: there is no prompt of this name.
        """
        name = self.prompt if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            known = f"it has {', '.join(self.prompts)}" if self.prompts else "it has none; write it into the texts"
            raise NotFound(f"{where} has no prompt {name!r}", remedy=nearest(name, self.prompts) or known)
        return self.prompts[name]


def recipe_for(model: Model) -> Recipe:
    """The recipe of the directory that ``model`` came from; what that leaves open, its spec's; else mean and L2 norm.

    Raises:
        DamagedFile: a file cannot be read, or asks for what is not implemented.
    """
    origin = model.origin
    spec = model.spec if origin is None or origin.asked is None else origin.asked
    found = None if origin is None else recipe_of(origin.directory)
    if found is None:
        head = spec.architecture.heads.get("embedding")
        found = Recipe(head) if isinstance(head, EmbeddingHead) else Recipe()
        if origin is not None and origin.pooling is not None:
            found = dataclasses.replace(found, head=EmbeddingHead(take=origin.pooling))
    if any(found.prompts.values()):
        return found
    words = (("query", spec.tokenizer.query), ("passage", spec.tokenizer.passage))
    return dataclasses.replace(found, prompts={name: said for name, said in words if any(both for _, both in words)})


def recipe_of(directory: Path) -> Recipe | None:
    """What the files of sentence-transformers in ``directory`` say; ``None`` without any.

    Raises:
        DamagedFile: one cannot be read, or asks for what is not implemented.
    """
    modules = _modules(directory)
    if not modules:
        return None
    where = str(directory / "modules.json")
    kinds = [kind for kind, _ in modules]
    strange = [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]
    if strange or kinds.count("Pooling") != 1:
        asked = strange[0] if strange else f"{kinds.count('Pooling')} poolings"
        raise DamagedFile(f"asks for {asked}; one pooling and a norm after it are implemented", where=where)
    place = directory / dict(modules)["Pooling"]
    pooling = files.read_json(place / "config.json")
    settings = _settings(directory / "sentence_bert_config.json")
    prompted = _settings(directory / "config_sentence_transformers.json")
    longest, prompts = settings.get("max_seq_length"), prompted.get("prompts") or {}
    if not isinstance(prompts, Mapping) or not all(isinstance(said, str) for said in prompts.values()):
        raise DamagedFile("has prompts that are no texts", where=str(directory / "config_sentence_transformers.json"))
    return Recipe(
        head=EmbeddingHead(take=_take(pooling, str(place / "config.json")), normalise="Normalize" in kinds),
        longest=longest if isinstance(longest, int) and longest > 0 else None,
        prompts=dict(prompts),
        prompt=prompted.get("default_prompt_name"),
        counts_prompt=pooling.get("include_prompt", True) is not False,
    )


def _settings(path: Path) -> dict[str, Any]:
    return files.read_json(path) if path.is_file() else {}


def _take(pooling: Mapping[str, Any], where: str) -> Take:
    """Which vector a pooling's configuration asks for, in either spelling.

    Raises:
        DamagedFile: several, or one that is not implemented.
    """
    said = pooling.get("pooling_mode")
    if said is None:
        said = [SWITCHES.get(name, name) for name, on in pooling.items() if name.startswith("pooling_mode_") and on]
    modes = [said] if isinstance(said, str) else list(said) if isinstance(said, list | tuple) else []
    if len(modes) != 1 or modes[0] not in POOLING:
        asked = ", ".join(map(str, modes)) or "no pooling"
        raise DamagedFile(f"asks for {asked}; one of {', '.join(POOLING)} is implemented", where=where)
    return POOLING[modes[0]]


def _modules(directory: Path) -> list[tuple[str, str]]:
    """The kinds and places of ``modules.json``, in order; a lone pooling where there is no such file."""
    path = directory / "modules.json"
    if not path.is_file():
        lone = (directory / "1_Pooling" / "config.json").is_file()
        return [("Pooling", "1_Pooling")] if lone else []
    try:
        found = [(str(one["type"]).rpartition(".")[2], str(one["path"])) for one in json.loads(path.read_bytes())]
    except (OSError, ValueError, RecursionError, TypeError, KeyError) as error:
        raise DamagedFile(f"cannot be read ({type(error).__name__})", where=str(path)) from None
    if any(Path(place).is_absolute() or ".." in Path(place).parts for _, place in found):
        raise DamagedFile("names a place outside its directory", where=str(path))
    return found
