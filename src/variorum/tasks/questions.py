"""Questions about a context with their right answers, however they are written down, and where answers stand in it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from variorum.errors import UsageError
from variorum.text.encoding import Offset


@dataclass(frozen=True)
class Answers:
    """The right answers to a question; none where it has none.

    Attributes:
        texts: all that count as right.
        starts: where each stands in the context, as far as it is said; empty, or one for each text.
    """

    texts: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()

    @classmethod
    def of(cls, given: Any, none: str | None = None) -> Answers:
        """From a text, several texts, or a mapping with ``text`` and ``answer_start`` as SQuAD has it; also as JSON.

        Args:
            none: a text that says that there is no answer; the empty one always does.

        Raises:
            UsageError: it is nothing of that kind.
        """
        if isinstance(given, str) and given[:1] in ("{", "["):
            with contextlib.suppress(ValueError, RecursionError):  # an answer may begin like JSON
                given = json.loads(given)
        if given is None or isinstance(given, str):
            given = [given or ""]
        if isinstance(given, Sequence) and given and all(isinstance(one, Mapping) for one in given):
            given = {key: [one[key] for one in given if key in one] for key in ("text", "answer_start")}
        if isinstance(given, Mapping):
            texts, starts = _listed(given.get("text", ())), _listed(given.get("answer_start", ()))
        else:
            texts, starts = _listed(given), []
        if not all(isinstance(one, str) for one in texts) or not all(type(one) is int for one in starts):
            raise UsageError("an answer is no text, or its place no whole number")
        if starts and len(starts) != len(texts):
            raise UsageError(f"{len(texts)} answers and {len(starts)} places")
        kept = [i for i, text in enumerate(texts) if text.strip() and text != none]
        return cls(tuple(texts[i] for i in kept), tuple(starts[i] for i in kept) if starts else ())

    def place(self, context: str) -> Offset | None:
        """Where the first answer stands in ``context``; ``None`` if there is none, or it does not stand there.

        Raises:
            UsageError: it does not stand where it is said to.
        """
        if not self.texts:
            return None
        text = self.texts[0]
        if not self.starts:
            return located(context, text)
        start = self.starts[0]
        if start >= 0 and context.startswith(text, start):
            return start, start + len(text)
        found = located(context, text)
        raise UsageError(
            f"the answer {text[:40]!r} does not stand at {start}",
            remedy="it does not stand in the context" if found is None else f"it stands at {found[0]}",
        )

    def right(self, context: str) -> tuple[str, ...]:
        """All texts that count as right: the answers, and the first one in the spelling of the context."""
        found = located(context, self.texts[0]) if self.texts else None
        return self.texts if found is None else tuple(dict.fromkeys((*self.texts, context[slice(*found)])))


def located(context: str, text: str) -> Offset | None:
    """Where ``text`` first stands in ``context``: letter by letter, else whatever the case and the spaces between."""
    start = context.find(text)
    if start >= 0:
        return start, start + len(text)
    letters = (re.escape(char) for char in text if not char.isspace())
    found = re.search(r"\s*".join(letters), context, re.IGNORECASE)
    return found.span() if found and found.end() > found.start() else None


def _listed(value: Any) -> list[Any]:
    plain = value.tolist() if hasattr(value, "tolist") else value
    return list(plain) if isinstance(plain, list | tuple) else [plain]
