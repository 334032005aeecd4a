"""``variorum generate``: a text continued, the likeliest token each time or one drawn by chance."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import emit
from variorum.cli.reading import Option


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choosing:
    """How the next token is chosen.

    Args:
        temperature: 0 takes the likeliest token; above it, scores are divided by this before one is drawn.
        top_k: Draw among so many of the likeliest.
        top_p: Draw among the fewest of the likeliest that together have this probability.
        min_p: Draw among those with at least this share of the best one's probability.
        typical_p: Draw among those whose surprise is nearest to the expected one, up to this probability.
        repetition_penalty: Make tokens of the text so far less likely; 1 leaves them as they are.
        presence_penalty: Taken from the score of what was written.
        frequency_penalty: The same for each time that it was written.
        no_repeat_ngram: No run of so many tokens comes twice.
        min_new_tokens: The model may not end before.
        seed: Of the draws.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram: int = 0
    min_new_tokens: int = 0
    seed: int = 0


LIKELIEST = Choosing()


def command(
    model: str, text: str, *, max_new_tokens: int = 20, language: str | None = None, chat: bool = False,
    system: str | None = None, stop: Annotated[tuple[str, ...], Option(many=True)] = (),
    choosing: Choosing = LIKELIEST, loading: Loading = PLAIN,
) -> None:  # fmt: skip
    """Continue a text over a cache, the likeliest token each time unless told otherwise.

    Args:
        model: A directory, a spec's name, or org/name in the cache; a decoder, or an encoder-decoder that answers.
        text: The text to continue, or to answer.
        max_new_tokens: At most so many; the model may end earlier.
        chat: The text is what a user says; the checkpoint's chat template makes it a conversation.
        system: What the model is told before a conversation begins; with --chat.
        stop: End before the first of these texts.
        language: The token of the language to write in, as the tokenizer names it (de_DE), where there are several.
    """
    from variorum.family.reference import is_file, read
    from variorum.hub import spec_named

    spec = read(model) if is_file(model) else spec_named(model)
    if spec is not None and spec.architecture.decoder is None:
        from variorum.inference.generate import require_writer

        require_writer(spec)  # no need to look for its weights
    from variorum.cli.loading import load
    from variorum.inference.generate import write
    from variorum.inference.sampling import Sampling

    sampling = Sampling(**dataclasses.asdict(choosing))
    loaded = load(model, loading)
    if chat or system is not None:
        from variorum.inference.chat import answer

        turns = ([] if system is None else [("system", system)]) + [("user", text)]
        said = [{"role": role, "content": content} for role, content in turns]
        written = answer(loaded, said, max_new_tokens=max_new_tokens, sampling=sampling, stop=stop)
        emit(written, human=written.text)
        return
    written = write(
        loaded, [text], max_new_tokens=max_new_tokens, language=language, sampling=sampling, stop=stop
    )[0]  # fmt: skip
    begun = text if loaded.spec.architecture.encoder is None else ""
    emit(written, human=begun + written.text)
