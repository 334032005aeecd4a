"""Labels scored by an encoder: how near a text's vector is to that of each label's description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from variorum.tasks.zero_shot.template import Candidate, Template

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from variorum.model import Model

#: Sentence encoders are trained with cosines times this within a softmax (Reimers & Gurevych 2019, released code).
SCALE = 20.0


class Described:
    """Scores are scaled cosines between vectors of texts and of descriptions, pooled as the checkpoint says."""

    def __init__(self, model: Model, candidates: Sequence[Candidate], template: Template) -> None:
        self.labels = tuple(one.name for one in candidates)
        self._model = model
        self._descriptions = self._vectors([template.described(one) for one in candidates])

    def scores(self, texts: Sequence[str]) -> NDArray[np.float64]:
        return SCALE * self._vectors(texts) @ self._descriptions.T

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Vectors of length 1, [N, D]; only the beginning is read of a text that is too long."""
        import numpy as np

        from variorum.inference.vectors import embed

        found, _ = embed(self._model, texts)
        vectors = found.double().cpu().numpy()
        return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12))
