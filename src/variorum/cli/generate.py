"""``variorum generate``: a text continued, the likeliest token each time."""

from __future__ import annotations

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import emit


def command(
    model: str, text: str, *, max_new_tokens: int = 20, language: str | None = None, chat: bool = False,
    system: str | None = None, loading: Loading = PLAIN,
) -> None:  # fmt: skip
    """Continue a text, the likeliest token each time, over a cache.

    Args:
        model: A directory, a spec's name, or org/name in the cache; a decoder, or an encoder-decoder that answers.
        text: The text to continue, or to answer.
        max_new_tokens: At most so many; the model may end earlier.
        chat: The text is what a user says; the checkpoint's chat template makes it a conversation.
        system: What the model is told before a conversation begins; with --chat.
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

    loaded = load(model, loading)
    if chat or system is not None:
        from variorum.inference.chat import answer

        turns = ([] if system is None else [("system", system)]) + [("user", text)]
        said = [{"role": role, "content": content} for role, content in turns]
        written = answer(loaded, said, max_new_tokens=max_new_tokens)
        emit(written, human=written.text)
        return
    written = write(loaded, [text], max_new_tokens=max_new_tokens, language=language)[0]
    begun = text if loaded.spec.architecture.encoder is None else ""
    emit(written, human=begun + written.text)
