"""Words by frequency: rare clusters have narrow vectors, and a choice among words is first a choice among clusters.

The input half looks words up (Baevski and Auli 2018), the output half scores them (Grave et al. 2017); Transformer-XL
ties the two.
"""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from variorum.spec import heads as head_spec
from variorum.spec import inputs as spec


class ClusteredTable(nn.Module):
    """Ids [B, T] -> vectors [B, T, D]: one table for each cluster, each with its projection."""

    def __init__(self, clusters: spec.Clusters, vocab: int, rank: int, width: int) -> None:
        super().__init__()
        shapes = clusters.tables(vocab, rank)
        self.rows = [rows for rows, _ in shapes]
        self.tables = nn.ModuleList(nn.Embedding(rows, inner) for rows, inner in shapes)
        self.projects = nn.ModuleList(nn.Linear(inner, width, bias=False) for _, inner in shapes)

    def forward(self, ids: Tensor) -> Tensor:
        # Every cluster looks at every id, so that shapes do not depend on the text; a narrow projection costs little.
        total: Tensor | None = None
        begin = 0
        for index, (table, project) in enumerate(zip(self.tables, self.projects, strict=True)):
            rows = self.rows[index]
            inside = (ids >= begin) & (ids < begin + rows)
            vectors = project(table((ids - begin).clamp(0, rows - 1)) * inside[..., None])
            total, begin = vectors if total is None else total + vectors, begin + rows
        assert total is not None
        return total


class AdaptiveSoftmax(nn.Module):
    """States [..., D] -> log-probabilities [..., V]; a loss scores only the clusters that its targets are in."""

    def __init__(self, head: head_spec.AdaptiveSoftmax, words: spec.TokenInput, width: int) -> None:
        super().__init__()
        assert words.clusters is not None
        self.spec, rank = head, words.rank or width
        shapes = words.clusters.tables(words.vocab, rank)
        self.begins = list(accumulate((rows for rows, _ in shapes), initial=0))
        self.tables = nn.ModuleList(nn.Linear(inner, rows) for rows, inner in shapes)
        # Held the way the input's are, [D, rank]: a tied projection is the same tensor, read the other way round.
        self.projects = nn.ModuleList(nn.Linear(inner, width, bias=False) for _, inner in shapes)
        self.clusters = nn.Linear(rank, len(shapes) - 1)

    def forward(self, x: Tensor) -> Tensor:
        first, chosen = self._first(x)
        tails = (self._within(x, i) + chosen[..., i - 1, None] for i in range(1, len(self.tables)))
        return torch.cat((first, *tails), -1)

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        """The mean of -log P(label), states [N, D] and labels [N]; -100 is no target. Without any target it is 0."""
        targets = labels != -100
        return self.summed_loss(x[targets], labels[targets]) / targets.sum().clamp(min=1)

    def summed_loss(self, x: Tensor, labels: Tensor, smoothing: float = 0.0) -> Tensor:
        """The sum of -log P(label), states [N, D] and labels [N]; the rules allow no smoothing here."""
        first, chosen = self._first(x)
        total = -_picked(first, labels.clamp(max=self.begins[1] - 1))[labels < self.begins[1]].sum()
        for i in range(1, len(self.tables)):
            here = (labels >= self.begins[i]) & (labels < self.begins[i + 1])
            if bool(here.any()):
                within = _picked(self._within(x[here], i), labels[here] - self.begins[i])
                total = total - (within + chosen[here, i - 1]).sum()
        return total

    def _first(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the frequent words, and of each other cluster as a whole."""
        inner = x @ self._projection(0)
        scores = torch.cat((self.tables[0](inner), self.clusters(inner)), -1).log_softmax(-1)
        return scores[..., : self.begins[1]], scores[..., self.begins[1] :]

    def _within(self, x: Tensor, cluster: int) -> Tensor:
        """Log-probabilities of a cluster's words, given the cluster."""
        scores: Tensor = self.tables[cluster](x @ self._projection(cluster))
        return F.log_softmax(scores, -1)

    def _projection(self, cluster: int) -> Tensor:
        return self.get_parameter(f"projects.{cluster}.weight")


def _picked(values: Tensor, at: Tensor) -> Tensor:
    return values.gather(-1, at[:, None]).squeeze(-1)
