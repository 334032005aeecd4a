"""The Python face: a built or loaded model with everything a user does with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from variorum import builder, checkpoint
from variorum.inference import encode, generate
from variorum.model import Model as Core
from variorum.spec.model import Model as Spec


class Model(Core):
    """An ``nn.Module`` that also writes, reads and saves. See :class:`variorum.model.Model` for its forward."""

    def generate(
        self, prompt: str | Sequence[str] | Sequence[Sequence[int]], *, max_new_tokens: int = 20
    ) -> str | list[str] | list[list[int]]:
        """Continue one text, several, or lists of ids, greedily; the answer has the prompt's form.

        Raises:
            UsageError: the model cannot write.
        """
        generate.require_decoder(self)
        texts = isinstance(prompt, str) or (bool(prompt) and isinstance(prompt[0], str))
        if not texts:
            rows = cast("Sequence[Sequence[int]]", prompt)
            found = generate.generate(self, rows, max_new_tokens=max_new_tokens, end_ids=self.end_ids)
            return [one.ids for one in found]
        tokenizer = encode.tokenizer_of(self)
        given = [prompt] if isinstance(prompt, str) else cast("list[str]", list(prompt))
        ids = [e.ids for e in tokenizer.encode_batch(given)]
        found = generate.generate(self, ids, max_new_tokens=max_new_tokens, end_ids=self.end_ids)
        written = [tokenizer.decode(one.ids) for one in found]
        return cast(str, written[0]) if isinstance(prompt, str) else written

    @property
    def end_ids(self) -> list[int]:
        """Ids that end a text: the config's, else the tokenizer's."""
        named = self.origin.config.get("eos_token_id") if self.origin else None
        if named is None and self.tokenizer is not None:
            named = self.tokenizer.eos_id
        return [] if named is None else [named] if isinstance(named, int) else list(named)

    def embed(self, texts: Sequence[str], *, batch_size: int = 32) -> Tensor:
        """Sentence vectors [N, D], pooled as the checkpoint says (by default the mean, L2-normalised)."""
        return encode.embed(self, texts, batch_size=batch_size)[0]

    def fill_mask(self, text: str, *, top_k: int = 5) -> list[encode.Guess]:
        """The likeliest tokens for every mask in ``text``."""
        return encode.fill_mask(self, text, top_k=top_k)

    def save(self, directory: str | Path) -> None:
        """Write the published layout, which transformers loads.

        Raises:
            UsageError: the architecture has no published layout, or the directory holds something else.
        """
        checkpoint.save(self, directory)


def load(directory: str | Path, **options: Any) -> Model:
    """A published model; options as in :func:`variorum.checkpoint.load`."""
    return cast(Model, checkpoint.load(directory, kind=Model, **options))


def build(spec: Spec, *, head: str | Sequence[str] | None = None, seed: int = 0) -> Model:
    """A fresh model from a spec; see :func:`variorum.builder.build`."""
    return cast(Model, builder.build(spec, head=head, seed=seed, kind=Model))
