"""Where a model lies on this disk: the reference a user gives, resolved through the Hugging Face cache.

A reference is a spec's name (its published repository), a directory, a ``.gguf`` file, or ``org/name[@revision]``, in
that order of meaning. Fetching takes what a model is made of (safetensors, JSON, tokenizer files) and nothing that
could run: no pickle, no code; files are checked against the hashes that the Hub publishes. Reading a model is not done
here, and torch is not needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from variorum.errors import AccessError, DamagedFile, NotFound, OverBudget, RunFailed, UsageError, VariorumError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

    from variorum.spec.model import Model

WANTED = ("*.safetensors", "*.json", "*vocab*.txt", "*merges*.txt", "*.model", "*.jinja", "LICENSE*", "README.md")
# The same weights for other engines, which many repositories carry beside the published ones.
OTHER_ENGINES = ("onnx/*", "openvino/*", "original/*", "coreml/*", "flax*/*", "tf*/*")
CHUNK = 1 << 20


def locate(reference: str, *, revision: str | None = None, download: bool = False) -> Path:
    """The directory, or the GGUF file, that a model reference means.

    Args:
        reference: the name of a spec, a directory, a GGUF file, or org/name[@revision].
        revision: a branch, tag or commit of a repository.
        download: fetch what the cache lacks; without it nothing touches the network.

    Raises:
        NotFound: no such spec, directory or cached model; the remedy names what is near, or how to fetch it.
        UsageError: a revision of a directory, or two different ones.
    """
    path = Path(reference).expanduser()
    if spec_named(reference.partition("@")[0]) is None:
        single = path.suffix.lower() == ".gguf"
        if path.is_dir() or (single and path.is_file()):
            if revision is not None:
                kind = "directory" if path.is_dir() else "file"
                raise UsageError(f"a {kind} has no revisions", where=reference, remedy="leave out --revision")
            return path
        if path.suffix.lower() == ".toml":
            raise _without_weights(reference)
        if single:
            raise NotFound("no such file", where=reference, remedy="check the path")
        if _looks_local(reference):
            raise NotFound("no such directory", where=reference, remedy="check the path")
    repository, revision = named(reference, revision)
    if download and not offline_by_environment():
        return fetched(repository, revision)
    return cached(repository, revision)


def _without_weights(reference: str) -> UsageError:
    """The refusal of a spec file where weights are needed, for the file's own faults first."""
    from variorum.family.reference import read

    return UsageError(
        f"{read(reference).name} is a spec, and a spec has no weights",
        where=reference,
        remedy=f"train what variorum.build({reference!r}) makes, save it, and name that directory",
    )


def spec_named(name: str) -> Model | None:
    """The spec or published size called ``name``, if there is one."""
    from variorum.family import find, models, sizes

    return find(name) if name.lower() in models() or name.lower() in sizes() else None


def _looks_local(reference: str) -> bool:
    """Whether a reference can only be a path: rooted, ending in a separator, deeper than org/name, or a file."""
    rooted = reference.startswith(("/", "./", "../", "~", ".")) or reference.endswith("/")
    return rooted or reference.count("/") > 1 or Path(reference).is_file()


def named(model: str, revision: str | None) -> tuple[str, str]:
    """The repository and revision that ``model`` means.

    Raises:
        UsageError: two different revisions, or a name that no repository can have.
        NotFound: neither a repository nor a spec that records one.
    """
    repository, _, inline = model.partition("@")
    if inline and revision and inline != revision:
        raise UsageError(f"two revisions, {inline} and {revision}", where=model, remedy="give one")
    if "/" not in repository:
        repository = _of_spec(repository)
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError:
        raise UsageError("not the name of a repository", where=repository, remedy="it has the form org/name") from None
    return repository, revision or inline or "main"


def cached(repository: str, revision: str) -> Path:
    """The folder of a model that the cache holds whole.

    Raises:
        NotFound: it does not, with the command that fetches it.
    """
    from huggingface_hub.errors import IncompleteSnapshotError, LocalEntryNotFoundError

    remedy = f"run `variorum download {repository}` once with a network, or give a local directory"
    try:
        folder = _snapshot(repository, revision, offline=True)
    except IncompleteSnapshotError:
        raise NotFound("the cache has only part of it", where=repository, remedy=remedy) from None
    except LocalEntryNotFoundError:
        raise NotFound(f"not in the cache at revision {revision}", where=repository, remedy=remedy) from None
    missing = _missing(folder)
    if missing:
        raise NotFound(f"the cache lacks {missing}", where=repository, remedy=remedy)
    return folder


def fetched(repository: str, revision: str) -> Path:
    """Fetch what is missing and return the model's folder in the cache.

    Raises:
        NotFound, AccessError: the Hub does not have it, or does not give it.
        OverBudget: it does not fit the disk.
        DamagedFile: a file does not have the hash that the Hub publishes.
        RunFailed: the Hub cannot be reached.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import disable_progress_bars

    if not sys.stderr.isatty():
        disable_progress_bars()
    try:
        info = HfApi().model_info(repository, revision=revision, files_metadata=True)
        _check(info, repository)
        folder = _snapshot(repository, revision, offline=False)
    except VariorumError:
        raise
    except Exception as error:
        raise _meaning(error, repository, revision) from error
    _verify(folder, info)
    return folder


def copied(folder: Path, to: Path) -> Path:
    """Copy a model's files into ``to``, each appearing only when it is whole."""
    for source in folder.rglob("*"):
        if source.is_file():
            target = to / source.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f"{target.name}.part")
            try:
                shutil.copyfile(source, partial)
                os.replace(partial, target)
            finally:
                partial.unlink(missing_ok=True)
    return to


def wanted(name: str) -> bool:
    """Whether the file ``name`` of a repository is part of a model as variorum reads it."""
    path = PurePosixPath(name)
    return any(path.match(pattern) for pattern in WANTED) and not any(path.match(other) for other in OTHER_ENGINES)


def _of_spec(name: str) -> str:
    """The repository where the model that a spec describes is published."""
    from variorum.family import find

    model = find(name)
    if model.repo is None:
        sizes = ", ".join(size for size, spec in model.sizes.items() if spec.repo is not None)
        remedy = f"its sizes do: {sizes}" if sizes else "give a repository, org/name"
        raise NotFound("records no published repository", where=name, remedy=remedy)
    return model.repo


def _check(info: ModelInfo, repository: str) -> None:
    """Refuse before the first byte: a model without safetensors, or larger than the disk."""
    from huggingface_hub.constants import HF_HUB_CACHE

    files = [file for file in info.siblings or () if wanted(file.rfilename)]
    if not any(file.rfilename.endswith(".safetensors") for file in files):
        raise NotFound(
            "publishes no safetensors weights, and others can run code when read",
            where=repository,
            remedy="look for a revision or a copy that has them",
        )
    size = sum(file.size or 0 for file in files)
    home = next(path for path in (Path(HF_HUB_CACHE), *Path(HF_HUB_CACHE).parents) if path.exists())
    free = shutil.disk_usage(home).free
    if size > free:
        raise OverBudget(
            f"needs {size:,} bytes and {free:,} are free", where=str(home), remedy="set HF_HOME to a folder with room"
        )


def _verify(folder: Path, info: ModelInfo) -> None:
    for file in info.siblings or ():
        if file.lfs is None or not wanted(file.rfilename):
            continue
        digest = hashlib.sha256()
        with (folder / file.rfilename).open("rb") as stream:
            while block := stream.read(CHUNK):
                digest.update(block)
        if digest.hexdigest() != file.lfs.sha256:
            raise DamagedFile(
                "its sha256 is not the published one",
                where=str(folder / file.rfilename),
                remedy="delete it and run the same command again",
            )


def _snapshot(repository: str, revision: str, *, offline: bool) -> Path:
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(
            repository,
            revision=revision,
            allow_patterns=list(WANTED),
            ignore_patterns=list(OTHER_ENGINES),
            local_files_only=offline,
        )
    )


def _missing(folder: Path) -> str:
    """What a cached model lacks, or an empty string."""
    if not (folder / "config.json").is_file():
        return "config.json"
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        return ", ".join(sorted(shard for shard in shards if not (folder / shard).is_file()))
    return "" if any(folder.glob("*.safetensors")) else "safetensors weights"


def _meaning(error: Exception, repository: str, revision: str) -> VariorumError:
    """The kind of failure that an exception of the Hub's client stands for."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        remedy = f"accept its terms at https://huggingface.co/{repository}, then set HF_TOKEN"
        return AccessError("its terms have to be accepted first", where=repository, remedy=remedy)
    if isinstance(error, errors.RevisionNotFoundError):
        return NotFound(f"has no revision {revision}", where=repository, remedy="leave out --revision for main")
    if isinstance(error, errors.RepositoryNotFoundError):
        remedy = "check the spelling; if it is private, set HF_TOKEN"
        return NotFound("no such repository on the Hub", where=repository, remedy=remedy)
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return RunFailed((error.strerror or "").lower(), where=str(error.filename))
    remedy = "check the network, or use --offline with what the cache has"
    return RunFailed(f"the Hub cannot be reached ({type(error).__name__})", where=repository, remedy=remedy)


def offline_by_environment() -> bool:
    """Whether HF_HUB_OFFLINE forbids the network."""
    from huggingface_hub.constants import HF_HUB_OFFLINE

    return bool(HF_HUB_OFFLINE)
