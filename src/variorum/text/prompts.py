"""Wrappers with places to choose for: the language of mBART's texts, the language and task of Whisper's.

Both are told by the vocabulary, whatever file it came from: mBART's codes are special tokens such as ``en_XX``,
Whisper's stand between ``<|startoftranscript|>`` and ``<|notimestamps|>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ..errors import DamagedFile
from .encoding import Slot, Wrapper
from .specials import Declared
from .tokenizer import Choices, Engine

START, SILENT_TIMES, END = "<|startoftranscript|>", "<|notimestamps|>", "<|endoftext|>"
TASKS = ("translate", "transcribe")
_CODE = re.compile(r"[a-z]{2,3}_[A-Z]{2}")
_SPOKEN = re.compile(r"<\|([a-z]{2,3})\|>")
_TIME = re.compile(r"<\|\d+\.\d\d\|>")


def is_transcript(engine: Engine) -> bool:
    """Whether a vocabulary is Whisper's."""
    return all(token in engine.lookup for token in (START, SILENT_TIMES, END))


def times(engine: Engine) -> frozenset[int]:
    """Ids of Whisper's time stamps: marks on a transcript, no part of its text."""
    return frozenset(id for id, name in enumerate(engine.names) if _TIME.fullmatch(name))


def chosen(engine: Engine, wrapper: Wrapper, declared: Declared, where: str) -> tuple[Wrapper, Choices]:
    """The wrapper with its places to choose for, set as the directory wants it, and what may stand in each."""
    if is_transcript(engine):
        return _transcript(engine, declared, where)
    codes = {engine.names[id]: id for id in sorted(engine.special_ids) if _CODE.fullmatch(engine.names[id])}
    marked = Wrapper(
        single=tuple(_marked(slot, codes) for slot in wrapper.single),
        pair=tuple(_marked(slot, codes) for slot in wrapper.pair),
    )
    return (wrapper, {}) if marked == wrapper else (marked, {"language": codes})


def _marked(slot: Slot, codes: Mapping[str, int]) -> Slot:
    return replace(slot, role="language") if slot.id is not None and slot.id in codes.values() else slot


def _transcript(engine: Engine, declared: Declared, where: str) -> tuple[Wrapper, Choices]:
    """<|startoftranscript|> language task <|notimestamps|> text <|endoftext|> (openai/whisper, tokenizer.py)."""
    start, silent, end = (engine.lookup[token] for token in (START, SILENT_TIMES, END))
    spoken = {
        match[1]: id
        for id, name in enumerate(engine.names)
        if start < id < silent and (match := _SPOKEN.fullmatch(name))
    }
    tasks = {task: engine.lookup[f"<|{task}|>"] for task in TASKS if f"<|{task}|>" in engine.lookup}
    choices: Choices = {"language": spoken, "task": tasks}
    prompt = [Slot(id=start)]
    for role, known in choices.items():
        name = declared.settings.get(role)
        if name is not None and name not in known:
            raise DamagedFile(f"{role} {name!r:.40} is none of {', '.join(known)}", where=where)
        prompt.append(Slot(id=None if name is None else known[name], role=role))
    if not declared.flag("predict_timestamps", False):
        prompt.append(Slot(id=silent))
    single = (*prompt, Slot(sequence=0), Slot(id=end))
    return Wrapper(single=single, pair=(*single[:-1], Slot(sequence=1, type_id=1), Slot(id=end, type_id=1))), choices
