"""The folder of a run: what was asked, what was settled, and where everything lies.

::

    run.json        what was asked and settled: with the data, all that the weights depend on
    data/           the corpus as shards, and its tokenizer
    start/          the weights that it begins with, if it does not begin with nothing
    checkpoints/    snapshots to go on from
    metrics.jsonl   one line a step and a line an evaluation, without times
    speed.jsonl     times
    model/          the trained model as a published directory, at the end; generator/ and others beside it
    README.md       the model card
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.family.names.own import BLANK, OWN
from variorum.files import sweep, write_whole
from variorum.spec.model import Model
from variorum.text.stream import Source
from variorum.training.recipes import Settled
from variorum.training.wishes import Wishes
from variorum.training.world import ALONE, World

RUN, DATA, CHECKPOINTS, MODEL, CARD, LOCK = "run.json", "data", "checkpoints", "model", "README.md", ".lock"
START = "start"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the user asked for; the same again goes on with the same run.

    Attributes:
        model: the reference of a spec, or of weights to begin with, as it was given.
        scale: a scale of :mod:`variorum.spec.small`, or "".
        tokenizer: a reference, or "" to learn one of ``vocab`` ids.
        budget: as it was given.
    """

    model: str
    set: tuple[str, ...]
    scale: str
    sources: tuple[Source, ...]
    validation: float
    tokenizer: str
    vocab: int
    budget: str
    wishes: Wishes


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that decides the weights, but the data.

    Attributes:
        spec: fitted to its vocabulary and length.
        every: steps between two evaluations. saves: steps between two snapshots.
        patience: evaluations without a better score after which the run ends; 0 for none.
        machine: what the bits depend on besides: threads and processes, versions, the processor's instructions.
    """

    spec: Model
    settled: Settled
    steps: int
    every: int
    saves: int
    patience: int
    seed: int
    precision: str
    recompute: bool
    machine: dict[str, Any]


def machine(threads: int, world: World = ALONE) -> dict[str, Any]:
    """What the bits of a run depend on here."""
    import torch

    kind = torch.device(world.device).type
    return {"threads": threads, "torch": torch.__version__, "cpu": torch.backends.cpu.get_cpu_capability(),
            "processes": world.size, "device": torch.cuda.get_device_name() if kind == "cuda" else kind}  # fmt: skip


def write_run(folder: Path, asked: Asked, plan: Plan) -> None:
    """Write ``run.json``, whole or not at all."""
    settled = dataclasses.asdict(plan.settled)
    rest = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan) if f.name not in ("spec", "settled")}
    document = {"format": FORMAT, "asked": asked_json(asked), "spec": OWN.write(plan.spec),
                "settled": settled, **rest}  # fmt: skip
    write_whole(folder / RUN, json.dumps(document, indent=1).encode() + b"\n")


def read_run(folder: Path) -> tuple[dict[str, Any], Plan]:
    """What was asked, as JSON, and the plan.

    Raises:
        NotFound: no run is there. DamagedFile: it is not what we wrote.
    """
    path = folder / RUN
    try:
        document = json.loads(path.read_bytes())
        if document.pop("format") != FORMAT:
            raise ValueError("another format")
        asked, spec, settled = document.pop("asked"), document.pop("spec"), document.pop("settled")
        assert OWN.read is not None
        told: dict[str, Any] = {**OWN.read(spec, BLANK)}
        model = dataclasses.replace(BLANK, **told)
        settled["betas"] = tuple(settled["betas"])
        return asked, Plan(spec=model, settled=Settled(**settled), **document)
    except FileNotFoundError:
        raise NotFound("no run is there", where=str(folder), remedy="start one with variorum pretrain") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedFile(f"is no run of ours ({error})", where=str(path)) from None


def place(model: str) -> str | Path:
    """A model reference; of a run of ``variorum pretrain`` the model that it made."""
    path = Path(model).expanduser()
    return path / MODEL if (path / RUN).is_file() and (path / MODEL).is_dir() else model


def asked_json(asked: Asked) -> dict[str, Any]:
    """What was asked as JSON reads it back."""
    found: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(asked)))
    return found


def check_folder(folder: Path, asked: Asked) -> bool:
    """Whether ``folder`` holds the run that was asked for; False where a run may begin.

    Raises:
        UsageError: it holds another run, or something else.
    """
    if (folder / RUN).exists():
        before, now = read_run(folder)[0], asked_json(asked)
        other = [name for name in now if before.get(name) != now[name]]
        if other:
            raise UsageError(
                f"is a run that was asked for another {', '.join(other)}", where=str(folder),
                remedy="choose another --out, or go on with it by variorum resume",
            )  # fmt: skip
        return True
    known, halves = {DATA, START, LOCK}, (f".{DATA}.tmp-", f".{START}.tmp-", f".{RUN}.")
    found = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    foreign = [name for name in found if name not in known and not name.startswith(halves)]
    if foreign:
        raise UsageError(f"holds {foreign[0]!r}, and no run", where=str(folder), remedy="choose another --out")
    return False


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time works in a run; what one that was killed left half written is removed.

    Raises:
        UsageError: another one does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise UsageError("another process is at work in it", where=str(folder), remedy="wait for it") from None
    try:
        sweep(folder)
        yield
    finally:
        os.close(handle)
