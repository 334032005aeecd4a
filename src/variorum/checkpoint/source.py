"""What a model reference holds besides its weights: a published directory or a GGUF file, opened and checked.

One face for both, so that loading does not ask which it is. Weights are read through :func:`open_tensors`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from variorum.checkpoint import manifest
from variorum.checkpoint.gguf import is_gguf, read_gguf
from variorum.checkpoint.paths import read_json
from variorum.errors import DamagedFile, NotFound

if TYPE_CHECKING:
    from variorum.checkpoint.files import TensorFiles
    from variorum.checkpoint.gguf_tensors import GgufTensors
    from variorum.spec.model import Model

GENERATION = "generation_config.json"


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a model lies and what is said about it.

    Attributes:
        place: the directory, or the GGUF file.
        where: the file that holds the config, for messages.
        config: as a dialect reads it.
        verified: whether every file matched a recorded sha256.
        generation: what ends a text, and other habits of writing, as ``generation_config.json`` says them.
        published: config keys that a published directory of a GGUF file's model has beside those of its spec.
        pooling: how a GGUF file says sentences become vectors.
    """

    place: Path
    where: str
    config: Mapping[str, Any]
    verified: bool
    generation: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    published: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    pooling: str | None = None

    def tokenizer(self) -> Any:
        """The tokenizer that lies there, or None.

        Raises:
            DamagedFile, AccessError: its files cannot be read, or contradict themselves.
        """
        if is_gguf(self.place):
            from variorum.checkpoint.gguf_tokenizer import load_gguf_tokenizer

            return load_gguf_tokenizer(read_gguf(self.place).metadata, self.place)
        from variorum.text import load_tokenizer
        from variorum.text.directory import holds_tokenizer

        return load_tokenizer(self.place) if holds_tokenizer(self.place) else None


def open_source(place: Path) -> Source:
    """Open a published directory or a GGUF file.

    Raises:
        NotFound: it is not there, or has no config.
        DamagedFile, AccessError: a file is damaged, differs from its manifest, or cannot be read.
    """
    if is_gguf(place) and not place.is_dir():
        return _from_gguf(place)
    if not place.is_dir():
        raise NotFound("no such directory", where=str(place), remedy="check the path, or download the model first")
    verified = manifest.verify(place)
    path = place / "config.json"
    if not path.is_file():
        raise NotFound("no config.json here", where=str(place), remedy="point at a published model directory")
    return Source(place, str(path), read_json(path), verified, _generation(place / GENERATION))


def _from_gguf(place: Path) -> Source:
    file = read_gguf(place)
    return Source(
        place, str(place), file.config, False, file.generation(), file.published(), file.pooling()
    )  # fmt: skip


def _generation(path: Path) -> dict[str, Any]:
    """A directory's habits of writing; nothing where it has no such file.

    Raises:
        DamagedFile: its end tokens are no ids.
    """
    if not path.is_file():
        return {}
    found = read_json(path)
    ends = found.get("eos_token_id")
    for id in ends if isinstance(ends, list) else [ends]:
        if id is not None and (type(id) is not int or id < 0):
            raise DamagedFile(f"eos_token_id holds {id!r:.40}, which is no token id", where=str(path))
    return found


def read_spec(place: Path) -> Model:
    """The spec of what lies at ``place``, without its weights.

    Raises:
        NotFound, DamagedFile, AccessError: as :func:`open_source`, or a config that describes no model.
    """
    from variorum.checkpoint.config import read_config

    source = open_source(place)
    return read_config(source.config, source.where)[0]


def open_tensors(place: Path) -> TensorFiles | GgufTensors:
    """The weights of a directory or a GGUF file, mapped.

    Raises:
        NotFound, DamagedFile, AccessError: see the two classes.
    """
    if is_gguf(place) and not place.is_dir():
        from variorum.checkpoint.gguf_header import read_header
        from variorum.checkpoint.gguf_tensors import GgufTensors

        return GgufTensors(place, read_header(place))
    from variorum.checkpoint.files import TensorFiles

    return TensorFiles(place)
