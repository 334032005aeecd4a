"""What a checkpoint's own ``generation_config.json`` asks for, under what a caller asks for.

Read as the released code reads it: a drawn text has temperature 1 and the 50 likeliest tokens unless the file says
otherwise; lengths count what the writing stack has read before. What the file asks for and nothing here does is named
by :func:`unmet`, never passed over in silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from variorum.errors import UsageError
from variorum.inference.encode import longest_input, tokenizer_of
from variorum.inference.sampling import CUTS
from variorum.inference.strategy import Forced, Strategy
from variorum.model import Model

#: Fields that mean here what they mean there, whatever way a text is chosen.
TAKEN = (
    "repetition_penalty", "no_repeat_ngram_size", "bad_words_ids", "suppress_tokens", "begin_suppress_tokens",
    "max_new_tokens", "min_new_tokens", "stop_strings",
)  # fmt: skip
#: Fields of a text that is drawn, and of one that is searched for.
DRAWING = ("temperature", *CUTS)
SEARCHING = ("num_beams", "length_penalty", "early_stopping", "num_return_sequences")
#: Fields of which these values ask for nothing; ``None`` never does.
IDLE: Mapping[str, Sequence[object]] = {
    "guidance_scale": (1.0,), "encoder_repetition_penalty": (1.0,), "encoder_no_repeat_ngram_size": (0,),
    "diversity_penalty": (0.0,), "num_beam_groups": (1,), "penalty_alpha": (0.0,), "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,), "renormalize_logits": (False,), "token_healing": (False,), "sequence_bias": (), "top_h": (),
    "exponential_decay_length_penalty": (), "constraints": (), "force_words_ids": (), "watermarking_config": (),
    "forced_decoder_ids": (), "max_time": (), "dola_layers": (), "assistant_early_exit": (), "use_mtp": (False,),
    "assistant_ensemble_weight": (), "speculation_type": (),
}  # fmt: skip
#: What a drawn text has where a file draws and says nothing else.
DRAWN = {"top_k": 50}
#: Values that a file may hold and that cut nothing.
NO_CUT = (("top_k", 0), ("top_p", 1.0), ("typical_p", 1.0))
#: New tokens where nobody says how many.
PLAIN_LENGTH = 20


def said(model: Model) -> Mapping[str, Any]:
    """The fields of the file that are set; none for a model that came from nowhere."""
    found = model.origin.generation if model.origin else {}
    return {name: value for name, value in found.items() if value is not None}


def unmet(model: Model) -> list[str]:
    """What the file asks for and is not done here, a clause each."""
    file = said(model)
    asked = [name for name in IDLE if name in file and file[name] not in IDLE[name]]
    if "forced_decoder_ids" in asked and "no_timestamps_token_id" in file:
        asked.remove("forced_decoder_ids")  # how Whisper's language and task were once fixed; they are told or heard
    if file.get("do_sample"):
        asked += [name for name in ("num_beams", "num_return_sequences") if file.get(name, 1) > 1]
    return [f"generation_config.json asks for {name}={file[name]}, which is not done here" for name in asked]


def habits(model: Model, longest: int, *, draws: bool) -> dict[str, Any]:
    """What the file asks for as the fields of a strategy.

    Args:
        model: with or without such a file.
        longest: how much the writing stack has read before the first new token, in the longest row.
        draws: whether the text is drawn, or else searched for.
    """
    file = said(model)
    found: dict[str, Any] = DRAWN if draws and file.get("do_sample") else {}
    found = found | {name: file[name] for name in (*TAKEN, *(DRAWING if draws else SEARCHING)) if name in file}
    found = {name: value for name, value in found.items() if (name, value) not in NO_CUT}
    if "bad_words_ids" in found:
        ends = [[id] for id in end_ids(model)]
        found["bad_words_ids"] = [word for word in found["bad_words_ids"] if word not in ends]
    if "max_length" in file and "max_new_tokens" not in file:
        found["max_new_tokens"] = max(1, file["max_length"] - longest)
    if "min_length" in file and "min_new_tokens" not in file:
        found["min_new_tokens"] = max(0, file["min_length"] - longest)
    return found


def asked(
    model: Model, prompts: Sequence[Sequence[int]], choice: Mapping[str, Any], *, language: str | None = None,
    length: int = PLAIN_LENGTH,
) -> Strategy:  # fmt: skip
    """The strategy for ``prompts``: what ``choice`` says, else the checkpoint, else the likeliest token each time.

    Whoever cuts the tail of a distribution, or sets ``do_sample``, draws, at temperature 1 unless one is given. What
    the checkpoint says about drawing counts where a text is drawn, and of its beams where it is not.

    Args:
        model: its end tokens and what it forces are taken as well.
        prompts: ids that the model continues or, as an encoder-decoder, answers.
        choice: fields of a :class:`~variorum.inference.strategy.Strategy` and its parts, and ``do_sample``; ``None``
            is as good as nothing.
        language: the token of the language to write in; see :func:`forced`.
        length: new tokens where neither says how many.

    Raises:
        UsageError: see :class:`~variorum.inference.strategy.Strategy` and :func:`forced`.
    """
    given = {name: value for name, value in choice.items() if value is not None}
    longest = max(map(len, prompts), default=0) if model.spec.architecture.encoder is None else 1
    draws = _draws(given, said(model))
    found = habits(model, longest, draws=draws)
    given.pop("do_sample", None)
    if draws:
        found = {"temperature": 1.0} | found
    whole: dict[str, Any] = {"end_ids": end_ids(model), "fixed": forced(model, language), **found, **given}
    if "max_new_tokens" not in given:
        whole["max_new_tokens"] = _fitting(model, whole.get("max_new_tokens", length), longest)
    return Strategy.of(**whole)


def _draws(given: Mapping[str, Any], file: Mapping[str, Any]) -> bool:
    if "do_sample" in given:
        return bool(given["do_sample"])
    if "temperature" in given:
        return bool(given["temperature"] > 0)
    return any(name in given for name in CUTS) or (bool(file.get("do_sample")) and "num_beams" not in given)


def _fitting(model: Model, wanted: int, longest: int) -> int:
    """As many new tokens as nobody insisted on, and as the model has room for."""
    limit = longest_input(model)
    return wanted if limit is None else max(1, min(wanted, limit - longest + 1))


def end_ids(model: Model) -> list[int]:
    """Ids that end a text: the generation config's, else the config's, else the tokenizer's."""
    files = (model.origin.generation, model.origin.config) if model.origin else ()
    named = next((found for one in files if (found := one.get("eos_token_id")) is not None), None)
    if named is None and model.tokenizer is not None:
        named = model.tokenizer.eos_id
    return [] if named is None else [named] if isinstance(named, int) else list(named)


def forced(model: Model, language: str | None = None) -> Forced:
    """What the generation config fixes, or the config where there is none; ``language`` is the token of the language.

    Where the labels' own last token starts the decoder (mBART), that is the language; elsewhere (mBART-50) it is
    written first.

    Raises:
        UsageError: no encoder-decoder, a language that the tokenizer has no token for, or none where one is needed.
    """
    files = (model.origin.generation, model.origin.config) if model.origin else ({}, {})
    start = files[0].get("decoder_start_token_id", files[1].get("decoder_start_token_id"))
    first, last = ((files[0] or files[1]).get(f"forced_{end}_token_id") for end in ("bos", "eos"))
    last = last[0] if isinstance(last, list) else last
    if model.spec.architecture.encoder is None:
        if language is not None:
            raise UsageError(f"{model.spec.name} continues a text in its own language", remedy="leave language out")
        return Forced(None, first, last)
    named = model.spec.architecture.main.tokens.start_id == "last"
    if language is not None:
        code = tokenizer_of(model).token_to_id(language)
        if code is None:
            raise UsageError(f"the tokenizer has no token {language!r}", remedy="name a language as it does: de_DE")
        start, first = (code, first) if named else (start, code)
    if named and start is None:
        raise UsageError(f"{model.spec.name} has to be told the language to write in", remedy="give one, as in de_DE")
    return Forced(start, first, last)
