"""``python -m tests.tools.convert IN.bin OUT.safetensors``: published tensors out of torch's own format.

The product refuses such files, because reading one can run what it holds. Here it is read with ``weights_only`` and
under limits on memory and processor time, in a process that does nothing else.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

MEMORY = 8 << 30  # torch alone maps several GiB of address space
SECONDS = 60


def main(source: Path, target: Path) -> None:
    """Write the tensors of ``source`` to ``target``, names and values unchanged, each tied tensor in full."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    import torch
    from safetensors.torch import save_file

    tensors = torch.load(source, map_location="cpu", weights_only=True)
    save_file({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, target, {"format": "pt"})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
