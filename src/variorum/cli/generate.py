"""``variorum generate``: a text continued, the likeliest token each time."""

from __future__ import annotations

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import emit


def command(model: str, text: str, *, max_new_tokens: int = 20, loading: Loading = PLAIN) -> None:
    """Continue a text, the likeliest token each time, over a cache.

    Args:
        model: A directory, a spec's name, or org/name in the cache; a decoder, or an encoder-decoder that answers.
        text: The text to continue, or to answer.
        max_new_tokens: At most so many; the model may end earlier.
    """
    from variorum.hub import spec_named

    spec = spec_named(model)
    if spec is not None and spec.architecture.decoder is None:
        from variorum.inference.generate import require_writer

        require_writer(spec)  # no need to look for its weights
    from variorum.cli.loading import load
    from variorum.inference.generate import write

    loaded = load(model, loading)
    written = write(loaded, [text], max_new_tokens=max_new_tokens)[0]
    begun = text if loaded.spec.architecture.encoder is None else ""
    emit(written, human=begun + written.text)
