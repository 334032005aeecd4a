"""Vectors for texts, learned from pairs: those that belong together, or those with a number for how alike they are.

A model is saved in the layout of sentence-transformers, which reads it to the same vectors.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from variorum.errors import UsageError
from variorum.tasks.estimator import Columns, Estimator, held_out, texts_of
from variorum.tasks.examples import Example, padded
from variorum.tasks.pairs import PairRegressor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.model import Model
    from variorum.objectives.base import Batch, Objective
    from variorum.spec.heads import EmbeddingHead
    from variorum.tasks.examined import Examined, Read
    from variorum.tasks.metrics.intervals import Figure

    Floats = NDArray[np.float64]

FIRST, SECOND = "input_ids", "second"
POOLING = {"mean": "mean", "cls": "first", "max": "max"}
#: The name of a pooling that sentence-transformers has for what is taken of a text, as a switch.
MODULES = "sentence_transformers.models"
SWITCHES = {
    "mean": "pooling_mode_mean_tokens", "first": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens",
    "last": "pooling_mode_lasttoken",
}  # fmt: skip


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class _Vectors(TransformerMixin, Estimator):
    """What is learned from pairs of texts; ``kept_by`` is the figure on what is held out by which an epoch is kept."""

    kept_by: ClassVar[str]

    pooling: Literal["mean", "cls", "max"] | None = None

    def _learn(self, pairs: Sequence[tuple[str, str]], targets: Floats, objective: Objective) -> Self:
        """Fine-tune; the epoch is kept that is best by :attr:`kept_by` on what is held out."""
        model = self.started(None, [text for pair in pairs for text in pair])
        self.take_ = self._head(model)
        sides = [[one.ids for one in self.encode(model, [pair[side] for pair in pairs])] for side in (0, 1)]
        learned, held = held_out(len(pairs), self.validation, self.seed)
        rows = zip(*sides, targets.tolist(), strict=True)
        examples = [Example(inputs={FIRST: a, SECOND: b}, target=target) for a, b, target in rows]
        kept, truth = [pairs[i] for i in held], targets[held]

        def judge(model: Model) -> float:
            self.model_ = model  # type: ignore[assignment]
            return float(self.evaluate(kept, truth)[self.kept_by] or 0.0)

        with pooled(model, self.take_):
            self.tune(model, objective, [examples[i] for i in learned], Pairs(model.tokenizer.pad_id or 0),
                      judge if len(held) > 1 else None)  # fmt: skip
        return self

    def transform(self, X: Any) -> Floats:
        """A vector of length 1 for each text, [N, D]."""
        from variorum.inference.vectors import read

        check_is_fitted(self)
        encodings = self.encode(self.model_, texts_of(X))
        return np.asarray(read(self.model_, encodings, self.take_).double().cpu().numpy())

    def predict(self, X: Any) -> Floats:
        """The cosine of each pair, [N]."""
        pairs = texts_of(X, 2)
        first, second = (self.transform([pair[side] for pair in pairs]) for side in (0, 1))
        return np.asarray((first * second).sum(1))

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """The cosine of each pair."""
        return [{"score": float(value)} for value in self.predict(X)]

    def answering(self) -> AbstractContextManager[None]:
        return pooled(self.model_, self.take_)

    def _read(self, pairs: Sequence[tuple[str, str]]) -> Read:
        """Pairs, each as long as the longer of its texts, which are read one by one."""
        from variorum.tasks.examined import Read, plainly

        limit = self.limit(self.model_)
        sides = [Read.by(self.model_, [pair[side] for pair in pairs], limit).tokens for side in (0, 1)]
        return Read(texts=[plainly(pair) for pair in pairs], tokens=list(map(max, *sides)), limit=limit)

    def learned(self) -> dict[str, Any]:
        return {"take": self.take_.take}

    def recall(self, learned: Mapping[str, Any]) -> None:
        from variorum.spec.heads import EmbeddingHead

        self.take_ = EmbeddingHead(take=learned["take"])

    def beside(self) -> dict[str, bytes]:
        """The files by which sentence-transformers knows how vectors are made."""
        switches = {switch: take == self.take_.take for take, switch in SWITCHES.items()}
        names = ("Transformer", "Pooling", "Normalize")
        files: dict[str, Any] = {
            "modules.json": [
                {"idx": at, "name": str(at), "path": f"{at}_{name}" if at else "", "type": f"{MODULES}.{name}"}
                for at, name in enumerate(names)
            ],
            "1_Pooling/config.json": {"word_embedding_dimension": self.model_.spec.architecture.width, **switches},
            "sentence_bert_config.json": {"max_seq_length": self.limit(self.model_), "do_lower_case": False},
        }
        return {name: json.dumps(content, indent=2).encode() + b"\n" for name, content in files.items()}

    def _head(self, model: Model) -> EmbeddingHead:
        from variorum.inference.sentences import recipe_for
        from variorum.spec.heads import EmbeddingHead

        if self.pooling is None:
            return dataclasses.replace(recipe_for(model).head, normalise=True)
        if self.pooling not in POOLING:
            raise UsageError(f"no pooling is called {self.pooling!r}", remedy=f"one of {', '.join(POOLING)}")
        return EmbeddingHead(take=POOLING[self.pooling])  # type: ignore[arg-type]


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Embedder(_Vectors):
    """Pairs of texts that belong together to a model whose vectors tell which do.

    Args:
        pooling: which vector stands for a text: the "mean" of its tokens' or the largest ("max"), or that of "cls"; as
            the checkpoint says, or else the mean, if absent. Its length is made 1.
        temperature: by which cosines are divided, where each text is to find its own among all of a step.
    """

    kind: ClassVar[str] = "embed"
    columns: ClassVar[Columns] = Columns(("text1", "text2"), "", shared=1)
    kept_by: ClassVar[str] = "reciprocal_rank"

    temperature: float = 0.05

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from pairs of texts [N, 2] that belong together; every other second text of a step does not."""
        from variorum.objectives.contrastive import Contrastive
        from variorum.spec.recipe import Contrast

        pairs = texts_of(X, 2)
        return self._learn(pairs, np.zeros(len(pairs)), Contrastive(Contrast(temperature=self.temperature)))

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Any]:
        """How well the first texts find their seconds, among all second ones."""
        from variorum.tasks.metrics.ranking import ranking

        pairs = texts_of(X, 2)
        texts, ranked = self._ranked(pairs)
        place = {text: row for row, text in enumerate(texts)}
        right = [{place[second]} for _, second in pairs]
        ten, one = ranking(ranked, right, 10), ranking(ranked, right, 1)
        return {
            "recall_at_1": one.recall, "recall_at_10": ten.recall, "reciprocal_rank": ten.reciprocal_rank,
            "rows": len(pairs),
        }  # fmt: skip

    def replies(self, X: Any) -> list[Any]:
        """The second text that each first one finds, among those of all pairs."""
        texts, ranked = self._ranked(texts_of(X, 2))
        return [texts[row[0]] for row in ranked]

    def right(self, X: Any, y: Any) -> list[str]:
        """The second text of each pair."""
        return [second for _, second in texts_of(X, 2)]

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """How often a text finds its own."""
        from variorum.tasks.metrics.intervals import mean_of

        return {"recall_at_1": mean_of([found == own for found, own in zip(predicted, y, strict=True)])}

    def examined(self, X: Any, y: Any) -> Examined:
        """What each text finds, and where its own is."""
        from variorum.tasks.examined import Examined, Mistake
        from variorum.tasks.metrics.intervals import mean_of

        pairs = texts_of(X, 2)
        texts, ranked = self._ranked(pairs)
        found = [[texts[row] for row in rows] for rows in ranked]
        places = [rows.index(own) + 1 if own in rows else None for rows, (_, own) in zip(found, pairs, strict=True)]
        mistakes = [
            Mistake(row=row, text=pairs[row][0], truth=pairs[row][1], answer=found[row][0], by=place or len(texts) + 1,
                    note=f"its own is at place {place}" if place else "its own is not among the first ten")
            for row, place in enumerate(places) if place != 1
        ]  # fmt: skip
        once = np.array([place == 1 for place in places], dtype=float)
        figures = {
            "recall_at_1": mean_of(once), "recall_at_10": mean_of([place is not None for place in places]),
            "reciprocal_rank": mean_of([1 / place if place else 0 for place in places]),
        }  # fmt: skip
        return Examined(read=self._read(pairs), figures=figures, each=once, measure="recall at 1", mistakes=mistakes)

    def _ranked(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[str], list[list[int]]]:
        """The second texts, each once, and the places of the ten nearest to each first one, the best first."""
        import torch

        from variorum.tasks.search import Index

        texts = list(dict.fromkeys(second for _, second in pairs))
        vectors = torch.from_numpy(self.transform(texts))
        index = Index(vectors=vectors, texts=texts, lines=range(len(texts)), probe=vectors[:1])
        hits = index.search(torch.from_numpy(self.transform([first for first, _ in pairs])), top_k=10)
        return texts, [[hit.row for hit in row] for row in hits]


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class ScoredEmbedder(_Vectors):
    """Pairs of texts, and a number for how alike they are, to a model whose vectors are as alike by their cosine.

    Args:
        pooling: as for :class:`Embedder`.
    """

    kind: ClassVar[str] = "embed-score"
    columns: ClassVar[Columns] = Columns(("text1", "text2"), "score")
    kept_by: ClassVar[str] = "spearman"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from pairs [N, 2] and how alike each is, the larger the more.

        Raises:
            UsageError: the numbers are all the same.
        """
        from variorum.objectives.similarity import Similarity

        pairs = texts_of(X, 2)
        check_consistent_length(pairs, y)
        return self._learn(pairs, _cosines(y), Similarity())

    def evaluate(self, X: Any, y: Any = None) -> dict[str, Any]:
        """Correlations of cosines with what is right."""
        from variorum.tasks.metrics.correlation import agreement

        return agreement(self.predict(X), np.asarray(y, dtype=float))

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """Rank correlation."""
        from variorum.tasks.metrics.correlation import spearman_of

        return {"spearman": spearman_of(np.asarray(predicted), np.asarray(y, dtype=float))}

    def examined(self, X: Any, y: Any) -> Examined:
        """How far cosines are from what is right, where of these rows the least alike are to have 0, the most 1."""
        from variorum.tasks.examined import of_numbers

        pairs, said = texts_of(X, 2), self.predict(X)
        return of_numbers(self._read(pairs), self.figures(said, y), said, _cosines(y), self.columns.target)

    @classmethod
    def target(cls, cell: str) -> float:
        return PairRegressor.target(cell)


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Batches of pairs: ``first`` and ``second``, padded on the right, their masks, and ``labels`` [B]."""

    pad_id: int = 0

    def __call__(self, examples: Sequence[Example]) -> Batch:
        import torch

        batch = {"labels": torch.tensor([one.target for one in examples], dtype=torch.float32)}
        for side, name in (("first", FIRST), ("second", SECOND)):
            rows = [one.inputs[name] for one in examples]
            batch[side] = padded(rows, self.pad_id)
            batch[f"{side}_mask"] = padded([[1] * len(row) for row in rows], 0)
        return batch


@contextmanager
def pooled(model: Model, head: EmbeddingHead) -> Iterator[None]:
    """``model`` with a head that gives a vector for each text, which has no weights; as it was afterwards."""
    from variorum.parts import heads

    before = model.spec, model.head_names, model.heads
    arch = model.spec.architecture
    named = dataclasses.replace(arch, heads={**arch.heads, "embedding": head})
    model.spec, model.head_names = dataclasses.replace(model.spec, architecture=named), ("embedding",)
    model.heads = type(model.heads)({"embedding": heads.EmbeddingHead(head)})
    try:
        yield
    finally:
        model.spec, model.head_names, model.heads = before


def _cosines(y: Any) -> Floats:
    """Numbers as cosines: the least is 0, the greatest 1.

    Raises:
        UsageError: they are all the same.
    """
    values = np.asarray(y, dtype=float)
    low, high = values.min(), values.max()
    if low == high:
        raise UsageError(
            f"every pair is alike by {low:g}", where="scores", remedy="leave them out if all belong together"
        )
    return np.asarray((values - low) / (high - low))
