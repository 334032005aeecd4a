"""A tokenizer as the rest of the package sees it, whatever file it came from.

Ids, offsets and decoding are the published tokenizer's; what this adds is the same for every kind: special tokens
spelt out in a text are text unless asked otherwise, truncation is counted, offsets are code points of the original
text, and a wrong input is one clear error. The engines that cut text into pieces live beside it; reading a
directory is :mod:`variorum.text.directory`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from ..errors import AccessError, UsageError, nearest
from .encoding import Batch, Encoding, Pieces, Side, Slot, Wrapper, pad, wrap

ROLES = ("pad", "unk", "cls", "sep", "mask", "bos", "eos")
Choices = Mapping[str, Mapping[str, int]]
Kind = Literal["wordpiece", "byte_level_bpe", "bpe", "unigram", "word_level", "bytes"]


class Engine(Protocol):
    """What cuts text into pieces. ``names[id]`` is a token's spelling; ids run from 0 without a gap in ``names``."""

    names: Sequence[str]
    lookup: Mapping[str, int]
    special_ids: frozenset[int]

    def encode(self, texts: Sequence[str], *, allow_special_text: bool) -> list[Pieces]:
        """Ids and original offsets per text, without any wrapper."""

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """Text of ids that are all within ``names``."""


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """Text to ids and back.

    Attributes:
        kind: the algorithm.
        engine: what does the work; not part of the stable interface.
        wrapper: the special tokens around one text and around a pair.
        special: role ("pad", "unk", "cls", "sep", "mask", "bos", "eos") to token, for the roles that this one has.
        files: the published files as they were read, written back unchanged by :meth:`save`.
        padding_side: where the checkpoint wants padding.
        truncation_side: where over-long text is cut.
        pad_type_id: the segment of padding.
        model_max_length: the longest input the directory announces, in tokens, if it does.
        choices: what may stand in the wrapper's places to choose for, by role ("language", "task"); see :meth:`choose`.
        marks: ids that are dropped with the special tokens when decoding (Whisper's time stamps).
        tidy: whether decoding takes the space before punctuation out (``clean_up_tokenization_spaces``).
    """

    kind: Kind
    engine: Engine = field(repr=False)
    wrapper: Wrapper = field(repr=False, default_factory=Wrapper)
    special: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(repr=False, default_factory=dict)
    padding_side: Side = "right"
    truncation_side: Side = "right"
    pad_type_id: int = 0
    model_max_length: int | None = None
    choices: Choices = field(repr=False, default_factory=dict)
    marks: frozenset[int] = field(repr=False, default=frozenset())
    tidy: bool = False

    @property
    def vocab_size(self) -> int:
        """Ids that exist: the largest id plus one, added tokens included."""
        return len(self.engine.names)

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of all special tokens: never masked, and dropped by ``decode(skip_special=True)``."""
        return self.engine.special_ids

    def special_id(self, role: str) -> int | None:
        """The id that plays a role, or None."""
        token = self.special.get(role)
        return None if token is None else self.engine.lookup.get(token)

    @property
    def pad_id(self) -> int | None:
        return self.special_id("pad")

    @property
    def unk_id(self) -> int | None:
        return self.special_id("unk")

    @property
    def cls_id(self) -> int | None:
        return self.special_id("cls")

    @property
    def sep_id(self) -> int | None:
        return self.special_id("sep")

    @property
    def mask_id(self) -> int | None:
        return self.special_id("mask")

    @property
    def bos_id(self) -> int | None:
        return self.special_id("bos")

    @property
    def eos_id(self) -> int | None:
        return self.special_id("eos")

    def choose(self, **names: str) -> Tokenizer:
        """The same tokenizer with another language (mBART, Whisper) or task (Whisper) in its wrapper.

        Raises:
            UsageError: it has no such place, or nothing of that name.
        """
        wanted: dict[str, int] = {}
        for role, name in names.items():
            known = self.choices.get(role)
            if known is None:
                raise UsageError(f"this tokenizer has no {role} to choose")
            if name not in known:
                raise UsageError(f"no {role} is called {name!r}", remedy=nearest(name, known) or f"{', '.join(known)}")
            wanted[role] = known[name]

        def put(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
            return tuple(replace(slot, id=wanted.get(slot.role, slot.id)) for slot in slots)

        return replace(self, wrapper=Wrapper(single=put(self.wrapper.single), pair=put(self.wrapper.pair)))

    def token_to_id(self, token: str) -> int | None:
        """The id of a token's exact spelling, or None."""
        return self.engine.lookup.get(token)

    def id_to_token(self, id: int) -> str:
        """A token's spelling; raises :class:`UsageError` beyond the vocabulary."""
        return self.engine.names[self._checked([id])[0]]

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        specials: bool = True,
        allow_special_text: bool = False,
        max_length: int | None = None,
        side: Side | None = None,
    ) -> Encoding:
        """Encode one text, or a pair.

        Args:
            text: any text without lone surrogates; the empty text gives the wrapper alone.
            pair: a second text, for models that read pairs.
            specials: put the wrapper's special tokens around it.
            allow_special_text: read a special token spelt out in the text as that token; otherwise it is plain text.
            max_length: cut to this many tokens, wrapper included, longest text first; the cut is counted.
            side: which end is cut; the checkpoint's own side unless given.

        Raises:
            UsageError: a lone surrogate, something that is not text, or no room for the wrapper.
        """
        texts = [text] if pair is None else [text, pair]
        for number, item in enumerate(texts):
            _check_text(item, "pair" if number else "text")
        pieces = self.engine.encode(texts, allow_special_text=allow_special_text)
        return self._wrap(pieces, specials, max_length, side)

    def encode_batch(
        self,
        texts: Iterable[str | tuple[str, str]],
        *,
        specials: bool = True,
        allow_special_text: bool = False,
        max_length: int | None = None,
        side: Side | None = None,
    ) -> list[Encoding]:
        """:meth:`encode` for many texts or (text, pair) tuples, in order."""
        flat: list[str] = []
        counts: list[int] = []
        for row, item in enumerate(texts):
            parts = [item] if isinstance(item, str) else list(item)
            if not 1 <= len(parts) <= 2:
                raise UsageError(f"expected a text or a pair, got {len(parts)} texts", where=f"item {row}")
            for part in parts:
                _check_text(part, f"item {row}")
            flat += parts
            counts.append(len(parts))
        pieces = iter(self.engine.encode(flat, allow_special_text=allow_special_text))
        return [self._wrap([next(pieces) for _ in range(count)], specials, max_length, side) for count in counts]

    def _wrap(self, pieces: list[Pieces], specials: bool, max_length: int | None, side: Side | None) -> Encoding:
        return wrap(
            pieces,
            self.wrapper,
            self.engine.names,
            specials=specials,
            max_length=max_length,
            side=side or self.truncation_side,
        )

    def pad(self, encodings: Sequence[Encoding], *, side: Side | None = None, multiple_of: int = 1) -> Batch:
        """One int64 rectangle [B, T]; without a padding token id 0 fills up, under a zero attention mask."""
        pad_id = self.pad_id
        return pad(
            encodings,
            pad_id=0 if pad_id is None else pad_id,
            pad_type_id=self.pad_type_id,
            side=side or self.padding_side,
            multiple_of=multiple_of,
        )

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, tokenize: bool = True, add_generation_prompt: bool = False,
        allow_special_text: bool = False, **variables: Any,
    ) -> list[int] | str:  # fmt: skip
        """A conversation by the checkpoint's chat template, as ids or as text; see :mod:`variorum.text.chat`.

        Special tokens spelt out in a message are text unless ``allow_special_text``. ``variables`` go to the template.

        Raises:
            UsageError: no template, or a conversation that it refuses. DamagedFile: a template that fails.
        """
        from .chat import chat_ids, chat_text

        if not tokenize:
            return chat_text(self, messages, add_generation_prompt=add_generation_prompt, **variables)
        return chat_ids(self, messages, add_generation_prompt=add_generation_prompt,
                        allow_special_text=allow_special_text, **variables)  # fmt: skip

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Text of ids; special tokens are left out unless asked for.

        Raises:
            UsageError: an id outside the vocabulary.
        """
        checked = self._checked(ids)
        if skip_special and self.marks:
            checked = [id for id in checked if id not in self.marks]
        text = self.engine.decode(checked, skip_special=skip_special)
        return tidied(text) if self.tidy else text

    def _checked(self, ids: Iterable[int]) -> list[int]:
        checked = [operator.index(id) for id in ids]
        size = self.vocab_size
        for place, id in enumerate(checked):
            if not 0 <= id < size:
                raise UsageError(
                    f"id {id} is beyond the vocabulary of {size} tokens",
                    where=f"position {place}",
                    remedy="rows that the embedding has to spare stand for no token",
                )
        return checked

    def save(self, directory: Path) -> None:
        """Write the published files, byte for byte as they were read.

        Raises:
            AccessError: the directory cannot be written.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for name, content in self.files.items():
                (directory / name).write_bytes(content)
        except OSError as error:
            raise AccessError(f"cannot write the tokenizer ({error.strerror})", where=str(directory)) from error


def tidied(text: str) -> str:
    """English without the space that stands before punctuation and shortened words after decoding, as released."""
    for spaced in (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're"):
        text = text.replace(spaced, spaced.strip())
    return text


def _check_text(text: object, where: str) -> None:
    if not isinstance(text, str):
        raise UsageError(f"expected text, got {type(text).__name__}", where=where)
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"lone surrogate U+{ord(text[error.start]):04X} at position {error.start} is not text",
            where=where,
            remedy="decode the source with errors='replace'",
        ) from None
