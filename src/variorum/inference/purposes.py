"""What a checkpoint's config says of the jobs that it was trained for: what to put before a text, and how to write.

T5 keeps such words in ``task_specific_params``; a model of many languages names them by tokens; others, such as BART
for summaries, need neither. Nothing is known here that no file says.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from variorum.errors import NotFound, UsageError
from variorum.inference.encode import tokenizer_of
from variorum.inference.habits import SEARCHING, TAKEN
from variorum.inference.texts import Text, write
from variorum.model import Model
from variorum.text.text_to_text import translate as asked

SUMMARY, TRANSLATION = "summarization", "translation_"


@dataclasses.dataclass(frozen=True)
class Purpose:
    """A job: what is put before each text, and how the answer is written, as the fields of a strategy."""

    prefix: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def purposes(model: Model) -> dict[str, Purpose]:
    """All jobs that the config names."""
    said = model.origin.config.get("task_specific_params") if model.origin else None
    named = {name: job for name, job in (said or {}).items() if isinstance(job, Mapping)}
    return {name: Purpose(str(job.get("prefix") or ""), _settings(job)) for name, job in named.items()}


def summarize(model: Model, texts: Sequence[str], **choice: Any) -> list[Text]:
    """What the model writes of each text in short.

    Raises:
        UsageError: see :func:`~variorum.inference.texts.write`.
    """
    return _written(model, texts, purposes(model).get(SUMMARY, Purpose()), None, choice)


def translate(model: Model, texts: Sequence[str], source: str | None, target: str | None, **choice: Any) -> list[Text]:
    """Each text in another language.

    Args:
        source, target: tokens of the tokenizer (en_XX, de_DE) where it has such; elsewhere a pair that the config
            names, by code (en, de) or in its words (English, German). A model of one pair needs neither.

    Raises:
        NotFound: the config names no such pair. UsageError: a language is missing, or not known to the tokenizer.
    """
    tokenizer = tokenizer_of(model)
    if "language" in tokenizer.choices:
        if source is None or target is None:
            raise UsageError(
                f"{model.spec.name} writes several languages", remedy="give both, as its tokenizer names them"
            )
        model.tokenizer = tokenizer.choose(language=source)
        try:
            return _written(model, texts, Purpose(), target, choice)
        finally:
            model.tokenizer = tokenizer
    return _written(model, texts, _pair(model, source, target), None, choice)


def _pair(model: Model, source: str | None, target: str | None) -> Purpose:
    pairs = {name: job for name, job in purposes(model).items() if name.startswith(TRANSLATION)}
    if source is None and target is None and len(pairs) < 2:
        return next(iter(pairs.values()), Purpose())
    wanted = f"{TRANSLATION}{source}_to_{target}"
    found = pairs.get(wanted) or next(
        (j for j in pairs.values() if j.prefix == asked("", f"{source}", f"{target}")), None
    )
    if found is None:
        known = ", ".join(name.removeprefix(TRANSLATION).replace("_to_", " to ") for name in pairs)
        raise NotFound(
            f"{model.spec.name} names no translation from {source} to {target}", remedy=f"it has {known or 'none'}"
        )
    return found


def _written(
    model: Model, texts: Sequence[str], purpose: Purpose, language: str | None, choice: Mapping[str, Any]
) -> list[Text]:
    if model.spec.architecture.encoder is None:
        raise UsageError(f"{model.spec.name} continues texts", remedy="give an encoder-decoder, such as t5 or bart")
    given = {name: value for name, value in choice.items() if value is not None}
    found = write(model, [purpose.prefix + text for text in texts], language=language, **{**purpose.settings, **given})
    return [dataclasses.replace(one, prompt=text) for one, text in zip(found, texts, strict=True)]


def _settings(job: Mapping[str, Any]) -> dict[str, Any]:
    """Lengths count the start token in these files."""
    found = {name: job[name] for name in (*TAKEN, *SEARCHING) if job.get(name) is not None}
    for ours, theirs in (("max_new_tokens", "max_length"), ("min_new_tokens", "min_length")):
        if theirs in job and ours not in found:
            found[ours] = max(1, int(job[theirs]) - 1)
    return found
