"""The tensors of a GGUF file by the names on disk: mapped, and dequantised one at a time by the ``gguf`` package.

The same face as :class:`variorum.checkpoint.files.TensorFiles`. Plain types are views of the file; blocks of rounded
numbers become float32, which is what every other reader of the format computes with.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import numpy
import torch
from torch import Tensor

from variorum.errors import AccessError, DamagedFile, UsageError

from .gguf_header import Header

PLAIN = {
    "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64, "I8": torch.int8,
    "I16": torch.int16, "I32": torch.int32, "I64": torch.int64,
}  # fmt: skip


class GgufTensors:
    """The tensors of one GGUF file, without reading them.

    Args:
        path: the file.
        header: its header, as :func:`variorum.checkpoint.gguf_header.read_header` gives it.

    Attributes:
        shapes: each tensor's shape by its name, outermost axis first.
        dtypes: each tensor's type as GGUF spells it (``F32``, ``Q4_K``), by its name.

    Raises:
        AccessError: the file cannot be mapped.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self.path, self._entries = path, header.tensors
        self.shapes = {name: entry.shape for name, entry in header.tensors.items()}
        self.dtypes = {name: entry.kind for name, entry in header.tensors.items()}
        try:
            # A private mapping: nothing is read before it is used, and nothing is ever written back.
            storage = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=path.stat().st_size)
        except (OSError, RuntimeError) as error:
            raise AccessError(f"cannot be mapped ({str(error).splitlines()[0][:160]})", where=str(path)) from None
        self._bytes = torch.empty(0, dtype=torch.uint8).set_(storage)  # type: ignore[arg-type]

    def get(self, name: str) -> Tensor:
        """The tensor ``name``: a view of the file, or float32 where the file holds blocks.

        Raises:
            KeyError: there is no such tensor; look into ``shapes`` first.
            UsageError: the package ``gguf`` is needed and not installed.
            DamagedFile: its blocks cannot be read.
        """
        entry = self._entries[name]
        raw = self._bytes[entry.begin : entry.end]
        if entry.kind in PLAIN:
            return raw.view(PLAIN[entry.kind]).reshape(entry.shape)
        return _dequantised(raw, entry.kind, entry.shape, f"{self.path}, tensor {name}")

    def file_of(self, name: str) -> Path:
        """The file that holds the tensor ``name``."""
        return self.path

    def close(self) -> None:
        """Let go of the mapping; tensors that were handed out stay valid."""
        self._bytes = torch.empty(0, dtype=torch.uint8)

    def __enter__(self) -> GgufTensors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _dequantised(raw: Tensor, kind: str, shape: tuple[int, ...], where: str) -> Tensor:
    try:
        import gguf
    except ImportError:
        raise UsageError(
            f"holds {kind} blocks, which the package gguf reads", where=where, remedy="pip install 'variorum[gguf]'"
        ) from None
    rows = raw.reshape(*shape[:-1], -1) if raw.numel() else raw
    try:
        with numpy.errstate(all="ignore"):  # what is not finite is refused by its reader, in one line
            values = gguf.dequantize(rows.numpy(), gguf.GGMLQuantizationType[kind])
    except (KeyError, NotImplementedError, ValueError) as error:
        raise DamagedFile(f"holds {kind} blocks, which cannot be read ({error!r:.100})", where=where) from None
    return torch.from_numpy(values).reshape(shape)
