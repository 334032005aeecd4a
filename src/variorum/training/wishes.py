"""What a user may say about a run of pretraining, in the words of the command line; standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Viewer = Literal["tensorboard", "trackio"]
OnFull = Literal["stop", "pause"]
Strategy = Literal["ddp", "fsdp"]


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What departs from the recipe; ``None`` leaves it to that.

    Args:
        batch: Rows of a step.
        micro_batch: Rows that are in memory at a time; all of a step's if absent.
        length: Tokens of a row.
        rate: The peak learning rate.
        warmup: Share of the steps over which it rises.
        schedule: Its shape afterwards.
        optimiser: AdamW, Adafactor, or Muon for the matrices inside layers.
        weight_decay: Decay of matrices.
        clip: The largest gradient norm; 0 for any.
        sequence_format: How rows are cut from documents.
        precision: Of the products; weights stay in float32.
        recompute: Keep only each layer's input, and compute the rest again on the way back.
        seed: Of first weights, data order, masks and dropout.
    """

    batch: int | None = None
    micro_batch: int | None = None
    length: int | None = None
    rate: float | None = None
    warmup: float | None = None
    schedule: Literal["linear", "cosine", "constant", "inverse_sqrt", "trapezoid"] | None = None
    optimiser: Literal["adamw", "adafactor", "muon"] | None = None
    weight_decay: float | None = None
    clip: float | None = None
    sequence_format: Literal["stream", "full_sentences", "doc_sentences", "segment_pair", "sentence_pair"] | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    recompute: bool = False
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class How:
    """How a run is planned and watched.

    Args:
        eval_every: Steps between two evaluations; a twentieth of the run if absent.
        save_every: Steps between two snapshots; as often as it is evaluated if absent.
        patience: End after so many evaluations without a better score.
        time_limit: Refuse a plan that may take more than so many minutes.
        workers: Processes that tokenise.
        threads: Threads of the training; other numbers give other bits.
    """

    eval_every: int | None = None
    save_every: int | None = None
    patience: int = 0
    time_limit: float | None = None
    workers: int = 1
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class Keeping:
    """What is kept; none of it changes the weights.

    Args:
        keep: Snapshots that stay; two at least.
        on_disk_full: End the run, or wait until there is room.
        track: A viewer that is fed too, beside metrics.jsonl.
    """

    keep: int = 2
    on_disk_full: OnFull = "stop"
    track: Viewer | None = None


@dataclass(frozen=True, kw_only=True)
class Running:
    """On what a run is carried out.

    Args:
        device: Where the model runs: cpu, or cuda, where each process that torchrun starts takes a GPU of its own.
        strategy: What each of several processes holds: the whole model (DDP), or a part of every tensor (FSDP2).
    """

    device: str = "cpu"
    strategy: Strategy = "ddp"


NO_WISHES, PLAINLY, USUAL, HERE = Wishes(), How(), Keeping(), Running()
