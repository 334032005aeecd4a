"""Every kind of task and the estimator that does it; nothing is imported before it is asked for."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from variorum.errors import DamagedFile, NotFound, nearest

if TYPE_CHECKING:
    from variorum.tasks.estimator import Estimator

KINDS = {
    "classify": "variorum.tasks.classify:Classifier",
    "pairs": "variorum.tasks.pairs:PairClassifier",
    "number": "variorum.tasks.pairs:Regressor",
    "pairs-number": "variorum.tasks.pairs:PairRegressor",
    "embed": "variorum.tasks.embed:Embedder",
    "embed-score": "variorum.tasks.embed:ScoredEmbedder",
    "tag": "variorum.tasks.tag:Tagger",
    "answer": "variorum.tasks.answer:Answerer",
    "seq2seq": "variorum.tasks.seq2seq:Seq2Seq",
    "classify-text": "variorum.tasks.text_to_text:TextClassifier",
    "pairs-text": "variorum.tasks.text_to_text:TextPairClassifier",
    "pairs-number-text": "variorum.tasks.text_to_text:TextPairRegressor",
    "answer-text": "variorum.tasks.text_to_text:TextAnswerer",
}
STATE = "variorum.json"
"""What a saved estimator knows beyond its model."""


def task(kind: str) -> type[Estimator]:
    """The estimator that does tasks of this kind.

    Raises:
        NotFound: there is none.
    """
    if kind not in KINDS:
        raise NotFound(
            f"no kind of task is called {kind!r}", remedy=nearest(kind, KINDS) or f"known: {', '.join(KINDS)}"
        )
    module, _, name = KINDS[kind].partition(":")
    found: type[Estimator] = getattr(importlib.import_module(module), name)
    return found


def load(directory: str | Path, *, device: str = "cpu") -> Estimator:
    """A fitted estimator as :meth:`~variorum.tasks.estimator.Estimator.save` left it.

    Raises:
        NotFound: the directory holds no estimator.
        DamagedFile: it is damaged.
    """
    path = Path(directory) / STATE
    if not path.parent.is_dir():
        raise NotFound("no such directory", where=str(directory), remedy="give one that variorum train wrote")
    if not path.is_file():
        raise NotFound(
            f"holds no {STATE}, so no task was trained here", where=str(directory),
            remedy="give a directory that variorum train wrote",
        )  # fmt: skip
    try:
        state = json.loads(path.read_bytes())
        kind = state["kind"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedFile(f"cannot be read ({type(error).__name__})", where=str(path)) from None
    return task(kind).restored(Path(directory), state, device=device)
