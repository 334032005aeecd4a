"""A program of its own: tensors out of torch's pickled files, in a process that can do little else.

``python -I unpickle.py OUT IN.bin …`` writes one safetensors file per input into the directory OUT. It is run by
:mod:`variorum.checkpoint.convert` and imports nothing of this package. The reader is torch's ``weights_only``, which
builds tensors and refuses everything else; beside that the process has limits on memory, time and output, no network
where the system lets it give that up, and no way to gain privileges.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path
from typing import Any

REFUSED = 3
TORCH_BYTES = 6 << 30  # address space that torch maps before it reads anything
SECONDS, BYTES_PER_SECOND = 60, 20 << 20
_NEWUSER, _NEWNET, _NO_NEW_PRIVILEGES = 0x10000000, 0x40000000, 38  # sched.h, prctl.h


def limit(size: int) -> None:
    """Bound this process to what files of ``size`` bytes can need, and cut it off."""
    memory, seconds = TORCH_BYTES + 4 * size, SECONDS + size // BYTES_PER_SECOND
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 2 * size + (64 << 20)),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
    system = ctypes.CDLL(None, use_errno=True)
    system.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    # As root the first is enough; others need a user namespace, which some systems do not give.
    if system.unshare(_NEWNET) != 0:
        system.unshare(_NEWUSER | _NEWNET)


def tensors_of(path: Path) -> dict[str, Any]:
    """Name -> tensor of one file, each with memory of its own.

    Raises:
        ValueError: it holds something else.
    """
    import torch

    found = torch.load(path, map_location="cpu", weights_only=True)
    for wrapper in ("state_dict", "model"):  # as training frameworks nest it
        if isinstance(found, dict) and isinstance(found.get(wrapper), dict):
            found = found[wrapper]
    if not isinstance(found, dict) or not found:
        raise ValueError(f"it holds {type(found).__name__}, not named tensors")
    seen: set[int] = set()
    made = {}
    for name, tensor in found.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise ValueError(f"{str(name)[:80]!r} holds {type(tensor).__name__}, not a tensor")
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise ValueError(f"{name[:80]!r} is sparse or quantised")
        whole = tensor.detach().contiguous()
        storage = whole.untyped_storage()
        if storage.data_ptr() in seen or storage.nbytes() != whole.nbytes:
            whole = whole.clone()
        seen.add(whole.untyped_storage().data_ptr())
        made[name] = whole
    return made


def main(out: Path, inputs: list[Path]) -> int:
    """Convert every input; a refusal is one line on stderr and exit code 3."""
    limit(sum(path.stat().st_size for path in inputs))
    from safetensors.torch import save_file

    for number, path in enumerate(inputs):
        try:
            save_file(tensors_of(path), out / f"{number:05}.safetensors", {"format": "pt"})
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            # torch's own message is a page; the line that names what was met is the one that matters.
            telling = (line for line in lines if "GLOBAL" in line or "Unsupported" in line)
            said = next(telling, lines[0] if lines else "")[:300]
            file = f"{path.name}: " if len(inputs) > 1 else ""
            os.write(2, f"{file}{type(error).__name__}: {said}\n".encode(errors="replace"))
            return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]))
