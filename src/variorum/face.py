"""The Python face: a built or loaded model with everything a user does with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from torch import Tensor

from variorum import builder, checkpoint, hub
from variorum.checkpoint import adapters
from variorum.family.reference import architecture
from variorum.inference import chat, generate, guesses, habits, texts, vectors
from variorum.inference.prepared import Form, prepare
from variorum.model import Model as Core
from variorum.spec import rules
from variorum.spec.model import Model as Spec


class Model(Core):
    """An ``nn.Module`` that also writes, reads and saves. See :class:`variorum.model.Model` for its forward."""

    def generate(
        self, prompt: str | Sequence[str] | Sequence[Sequence[int]], *, language: str | None = None,
        keeping: generate.Keeping = generate.KEPT, **choice: Any,
    ) -> str | list[str] | list[list[int]]:  # fmt: skip
        """Continue one text, several, or lists of ids; the answer has the prompt's form.

        Args:
            prompt: what to continue, or to answer.
            language: the token of the language to write in, for models that write several ("de_DE").
            keeping: how keys and values are kept, and a :class:`~variorum.inference.prefix.PrefixCache` of beginnings
                that earlier calls have read.
            choice: fields of a :class:`~variorum.inference.strategy.Strategy` and its parts: ``max_new_tokens=50``,
                ``temperature=0.8, top_p=0.9``, ``num_beams=4``, ``prompt_lookup_num_tokens=8``, ``stop_strings=[...]``;
                what is left out is as the checkpoint's ``generation_config.json`` says, or else 20 tokens, the
                likeliest each time. More than one of ``num_return_sequences`` come in a list, those of a prompt
                together.

        Raises:
            UsageError: the model cannot write, or not in that language; or wishes that make no sense.
        """
        self._warn()
        if isinstance(prompt, str) or (prompt and isinstance(prompt[0], str)):
            asked = [prompt] if isinstance(prompt, str) else cast("Sequence[str]", prompt)
            found = [one.text for one in texts.write(self, asked, language=language, keeping=keeping, **choice)]
            return found[0] if isinstance(prompt, str) and len(found) == 1 else found
        rows = cast("Sequence[Sequence[int]]", prompt)
        generate.require_decoder(self)
        strategy = habits.asked(self, rows, choice, language=language)
        return [one.ids for one in generate.generate(self, rows, strategy, keeping=keeping)]

    def stream(
        self, prompt: str | Sequence[Mapping[str, Any]], *, language: str | None = None, **choice: Any
    ) -> Iterator[str]:
        """What :meth:`generate` writes after a text, or :meth:`chat` after messages, piece by piece as it is written.

        Raises:
            UsageError: as they do, at once; and for a search over beams, which knows its text only at its end.
        """
        self._warn()
        if isinstance(prompt, str):
            return texts.stream(self, prompt, language=language, **choice)
        return chat.stream(self, prompt, **choice)

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> str:
        """The model's turn after ``messages``, by the checkpoint's chat template; see :mod:`variorum.inference.chat`.

        ``options`` are as in :meth:`generate`, with 256 tokens where nobody says how many; others go to the template.

        Raises:
            UsageError: no chat template, or a conversation that it refuses.
        """
        self._warn()
        return chat.answer(self, messages, **options).text

    def compile(self, *given: Any, **more: Any) -> None:
        """Not offered, and said: whatever ``torch.compile`` is given, the model runs as it is.

        Texts of every other length would be compiled anew, and each step of writing is one; what is to be fast is so
        without: loops in C on a CPU, a step held as a CUDA graph on a GPU.
        """
        warnings.warn("variorum's models are not compiled; this one runs as it is", stacklevel=2)

    def _warn(self) -> None:
        for clause in habits.unmet(self):
            warnings.warn(clause, stacklevel=3)

    def embed(self, texts: Sequence[str], *, batch_size: int | None = None, prompt: str | None = None) -> Tensor:
        """Sentence vectors [N, D], pooled as the checkpoint says (by default the mean, L2-normalised).

        ``prompt`` names what is put before each text ("query", "passage"), where the checkpoint or its spec has such.
        """
        return vectors.embed(self, texts, batch_size=batch_size, prompt=prompt)[0]

    def fill_mask(self, text: str, *, top_k: int = 5) -> list[guesses.Guess]:
        """The likeliest tokens for every mask in ``text``."""
        return guesses.fill_mask(self, text, top_k=top_k)

    def save(self, directory: str | Path, *, weights: Literal["int8"] | None = None) -> None:
        """Write the published layout, which transformers loads; a mix that nobody published, one that is read here.

        With ``weights="int8"`` the matrices of the layers are written as int8; see :mod:`variorum.checkpoint.int8`.

        Raises:
            UsageError: the directory holds something else, or the layout has no place for int8.
        """
        checkpoint.save(self, directory, weights=weights)

    def save_adapter(self, directory: str | Path, *, base: str = "") -> None:
        """Write low-rank adapters alone, in PEFT's layout; see :func:`variorum.checkpoint.adapters.save_adapter`."""
        adapters.save_adapter(self, directory, base=base)


def load(
    reference: str | Path, *, revision: str | None = None, download: bool = False, weights: Form | None = None,
    adapter: str | Path | None = None, **options: Any,
) -> Model:  # fmt: skip
    """A published model.

    Args:
        reference: a directory or a GGUF file (always, if it is a ``Path``), a spec's name, or org/name[@revision] in
            the cache.
        revision: of a repository.
        download: fetch what the cache lacks.
        weights: "float32" or "int8" gives its form for inference on a CPU, see
            :func:`variorum.inference.prepared.prepare`; the plain model if absent.
        adapter: a directory with low-rank adapters in PEFT's layout, which are merged into the weights.
        options: as in :func:`variorum.checkpoint.load`.

    Raises:
        NotFound: no such directory, spec or cached model. Further kinds as :func:`variorum.checkpoint.load`.
    """
    asked = hub.spec_named(reference.partition("@")[0]) if isinstance(reference, str) else None
    if isinstance(reference, str):
        reference = hub.locate(reference, revision=revision, download=download)
    if adapter is None:
        model = cast(Model, checkpoint.load(reference, kind=Model, **options))
    else:
        model = cast(Model, adapters.load_merged(reference, adapter, kind=Model, **options))
    model.origin.asked = asked
    return model if weights is None else cast(Model, prepare(model, weights))


def build(spec: Spec | str | Path, *, head: str | Sequence[str] | None = None, seed: int = 0) -> Model:
    """A fresh model from a spec, from its name or from a spec file; see :func:`variorum.builder.build`.

    Raises:
        UsageError: the rules exclude such a model, with their reason.
    """
    whole = architecture(spec)
    rules.require(whole, rules.BUILD)
    return cast(Model, builder.build(whole, head=head, seed=seed, kind=Model))
