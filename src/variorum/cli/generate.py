"""``variorum generate``: a text continued or answered, as the checkpoint says or as the flags do."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Annotated, Any, Literal

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import chosen, emit, pour, say
from variorum.cli.reading import Option
from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.inference.generate import Keeping


@dataclasses.dataclass(frozen=True, kw_only=True)
class Choosing:
    """How the text is chosen. What no flag says is as the checkpoint's generation_config.json says.

    Args:
        max_new_tokens: At most so many; the model may end earlier. Without a word from anybody 20, in a chat 256.
        min_new_tokens: The model may not end before.
        stop_strings: End before the first of these texts.
        do_sample: Draw each token by its probability.
        temperature: 0 takes the likeliest token; above it, scores are divided by this before one is drawn.
        top_k: Draw among so many of the likeliest.
        top_p: Draw among the fewest of the likeliest that together have this probability.
        min_p: Draw among those with at least this share of the best one's probability.
        typical_p: Draw among those whose surprise is nearest to the expected one, up to this probability.
        seed: Of the draws.
        repetition_penalty: Make tokens of the text so far less likely; 1 leaves them as they are.
        presence_penalty: Taken from the score of what was written.
        frequency_penalty: The same for each time that it was written.
        no_repeat_ngram_size: No run of so many tokens comes twice.
        suppress_tokens: Ids that are never written.
        begin_suppress_tokens: Ids that are not written first.
        num_beams: Keep so many texts in sight; 1 searches for none.
        length_penalty: Finished texts are compared by log-probability / length^this, their end tokens counted.
        early_stopping: true ends the search once enough texts have ended; never, only where none can be better.
        num_return_sequences: Write so many of the texts found.
        assistant_model: A smaller model of the same tokenizer that guesses ahead; the text stays as it is without.
        num_assistant_tokens: It guesses so many tokens at a time.
        prompt_lookup_num_tokens: Guess so many tokens from the text itself, where its last tokens stood before.
        max_matching_ngram_size: Look up at most so many last tokens.
    """

    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    stop_strings: Annotated[tuple[str, ...], Option(many=True)] = ()
    do_sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    seed: int | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    suppress_tokens: Annotated[tuple[int, ...], Option(many=True)] = ()
    begin_suppress_tokens: Annotated[tuple[int, ...], Option(many=True)] = ()
    num_beams: int | None = None
    length_penalty: float | None = None
    early_stopping: Literal["true", "false", "never"] | None = None
    num_return_sequences: int | None = None
    assistant_model: str | None = None
    num_assistant_tokens: int | None = None
    prompt_lookup_num_tokens: int | None = None
    max_matching_ngram_size: int | None = None


NOTHING_SAID = Choosing()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Talk:
    """Whether the text is what somebody says.

    Args:
        chat: The text is what a user says; the checkpoint's chat template makes it a conversation.
        system: What the model is told before a conversation begins; with --chat.
    """

    chat: bool = False
    system: str | None = None


NO_TALK = Talk()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Caching:
    """How keys and values are kept; the text is the same, but for rounding, and with int8 nearly.

    Args:
        cache: All tokens, a ring of the last ones where a layer has a window, or pages; auto takes rings where it can.
        cache_numbers: As the model computes them, or as int8, which takes a quarter of the memory.
        prompt_chunk: Tokens of the prompt that are read at a time.
    """

    cache: Literal["auto", "whole", "ring", "paged"] = "auto"
    cache_numbers: Literal["model", "int8"] = "model"
    prompt_chunk: int = 2048


CACHING = Caching()


def command(
    model: str, text: str, *, language: str | None = None, stream: bool = False, talk: Talk = NO_TALK,
    choosing: Choosing = NOTHING_SAID, caching: Caching = CACHING, loading: Loading = PLAIN,
) -> None:  # fmt: skip
    """Continue a text over a cache, as the checkpoint says or the likeliest token each time, unless told otherwise.

    Args:
        model: A directory, a spec's name, or org/name in the cache; a decoder, or an encoder-decoder that answers.
        text: The text to continue, or to answer.
        language: The token of the language to write in, as the tokenizer names it (de_DE), where there are several.
        stream: Write the text as it comes.
    """
    from variorum.family.reference import is_file, read
    from variorum.hub import spec_named

    spec = read(model) if is_file(model) else spec_named(model)
    if spec is not None and spec.architecture.decoder is None:
        from variorum.inference.generate import require_writer

        require_writer(spec)  # no need to look for its weights
    if stream and chosen() != "human":
        raise UsageError("a stream is for people to read", remedy="leave out --stream, or --format")
    from variorum.cli.loading import load
    from variorum.inference.habits import unmet

    if loading.device == "cpu" and loading.weights is None:
        loading = dataclasses.replace(loading, weights="float32")
    loaded = load(model, loading)
    for clause in unmet(loaded):
        say(f"note: {clause}")
    choice = _choice(choosing, loading) | {"keeping": _keeping(caching)}
    turns = ([("system", talk.system)] if talk.system is not None else []) + [("user", text)]
    messages = [{"role": role, "content": content} for role, content in turns]
    talks = talk.chat or talk.system is not None
    begun = text if not talks and loaded.spec.architecture.encoder is None else ""
    choice |= {} if talks else {"language": language}
    if stream:
        pour(itertools.chain([begun], loaded.stream(messages if talks else text, **choice)))
        return
    if talks:
        from variorum.inference.chat import answer

        written = [answer(loaded, messages, **choice)]
    else:
        from variorum.inference.texts import write

        written = write(loaded, [text], **choice)
    emit(written[0] if len(written) == 1 else written, human="\n".join(begun + one.text for one in written))


def _keeping(caching: Caching) -> Keeping:
    from variorum.inference.generate import Keeping
    from variorum.spec.cache import CachePlan

    plan = CachePlan(kind=caching.cache, numbers=caching.cache_numbers, chunk=caching.prompt_chunk)
    return Keeping(plan)


def _choice(choosing: Choosing, loading: Loading) -> dict[str, Any]:
    """What the flags say, as the fields of a strategy."""
    given = dataclasses.asdict(choosing)
    said = {name: value for name, value in given.items() if value != getattr(NOTHING_SAID, name)}
    if "early_stopping" in said:
        said["early_stopping"] = {"true": True, "false": False}.get(said["early_stopping"], "never")
    if "assistant_model" in said:
        from variorum.cli.loading import load

        # Its state is copied for every guess, which that of a prepared model cannot be.
        said["assistant_model"] = load(said["assistant_model"], dataclasses.replace(loading, weights=None))
    return said
