"""The Python face: a built or loaded model with everything a user does with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from variorum import builder, checkpoint, hub
from variorum.family.reference import architecture
from variorum.inference import chat, encode, generate
from variorum.inference.sampling import Sampling
from variorum.model import Model as Core
from variorum.spec import rules
from variorum.spec.model import Model as Spec


class Model(Core):
    """An ``nn.Module`` that also writes, reads and saves. See :class:`variorum.model.Model` for its forward."""

    def generate(
        self, prompt: str | Sequence[str] | Sequence[Sequence[int]], *, max_new_tokens: int = 20,
        language: str | None = None, stop: Sequence[str] = (), **choice: Any,
    ) -> str | list[str] | list[list[int]]:  # fmt: skip
        """Continue one text, several, or lists of ids; the answer has the prompt's form.

        Args:
            prompt: what to continue, or to answer.
            max_new_tokens: at most so many.
            language: the token of the language to write in, for models that write several ("de_DE").
            stop: texts end before the first of these that they hold.
            choice: fields of :class:`~variorum.inference.sampling.Sampling`, such as ``temperature=0.8, top_p=0.9``;
                without them each token is the likeliest.

        Raises:
            UsageError: the model cannot write, or not in that language; or a value that makes no choice.
        """
        given: dict[str, Any] = {"max_new_tokens": max_new_tokens, "sampling": Sampling(**choice)}
        if isinstance(prompt, str):
            return generate.write(self, [prompt], language=language, stop=stop, **given)[0].text
        if prompt and isinstance(prompt[0], str):
            texts = cast("Sequence[str]", prompt)
            return [one.text for one in generate.write(self, texts, language=language, stop=stop, **given)]
        rows, ends = cast("Sequence[Sequence[int]]", prompt), generate.end_ids(self)
        generate.require_decoder(self)
        fixed = generate.forced(self, language)
        return [one.ids for one in generate.generate(self, rows, end_ids=ends, fixed=fixed, **given)]

    def chat(self, messages: Sequence[Mapping[str, Any]], *, max_new_tokens: int = 256, **options: Any) -> str:
        """The model's turn after ``messages``, by the checkpoint's chat template; see :mod:`variorum.inference.chat`.

        Raises:
            UsageError: no chat template, or a conversation that it refuses.
        """
        return chat.answer(self, messages, max_new_tokens=max_new_tokens, **options).text

    def embed(self, texts: Sequence[str], *, batch_size: int = 32, prompt: str | None = None) -> Tensor:
        """Sentence vectors [N, D], pooled as the checkpoint says (by default the mean, L2-normalised).

        ``prompt`` names what is put before each text ("query", "passage"), where the checkpoint or its spec has such.
        """
        return encode.embed(self, texts, batch_size=batch_size, prompt=prompt)[0]

    def fill_mask(self, text: str, *, top_k: int = 5) -> list[encode.Guess]:
        """The likeliest tokens for every mask in ``text``."""
        return encode.fill_mask(self, text, top_k=top_k)

    def save(self, directory: str | Path) -> None:
        """Write the published layout, which transformers loads; a mix that nobody published, one that is read here.

        Raises:
            UsageError: the directory holds something else.
        """
        checkpoint.save(self, directory)


def load(
    reference: str | Path, *, revision: str | None = None, download: bool = False, **options: Any
) -> Model:  # fmt: skip
    """A published model.

    Args:
        reference: a directory or a GGUF file (always, if it is a ``Path``), a spec's name, or org/name[@revision] in
            the cache.
        revision: of a repository.
        download: fetch what the cache lacks.
        options: as in :func:`variorum.checkpoint.load`.

    Raises:
        NotFound: no such directory, spec or cached model. Further kinds as :func:`variorum.checkpoint.load`.
    """
    asked = hub.spec_named(reference.partition("@")[0]) if isinstance(reference, str) else None
    if isinstance(reference, str):
        reference = hub.locate(reference, revision=revision, download=download)
    model = cast(Model, checkpoint.load(reference, kind=Model, **options))
    model.origin.asked = asked
    return model


def build(spec: Spec | str | Path, *, head: str | Sequence[str] | None = None, seed: int = 0) -> Model:
    """A fresh model from a spec, from its name or from a spec file; see :func:`variorum.builder.build`.

    Raises:
        UsageError: the rules exclude such a model, with their reason.
    """
    whole = architecture(spec)
    rules.require(whole, rules.BUILD)
    return cast(Model, builder.build(whole, head=head, seed=seed, kind=Model))
