"""Variants of a text that a model writes: translated there and back, or said in other words."""

from __future__ import annotations

import dataclasses
from typing import Any

from variorum.inference.encode import tokenizer_of
from variorum.model import Model

MOST_TOKENS = 256


@dataclasses.dataclass(frozen=True)
class Translator:
    """A model from one language to another: what stands before its texts (T5's prefix), or its language token."""

    model: Model
    before: str = ""
    language: str | None = None

    def __call__(self, texts: list[str], count: int, seed: int) -> list[str]:
        """``count`` translations of each text, those of one together: the likeliest, or several that are drawn."""
        from variorum.inference.texts import write

        drawn: dict[str, Any] = {} if count == 1 else {"do_sample": True, "seed": seed}
        asked = [self.before + text for text in texts for _ in range(count)]
        longest = min(MOST_TOKENS, max(map(len, texts)))  # no text has more tokens than characters
        found = write(self.model, asked, language=self.language, max_new_tokens=longest, **drawn)
        return [one.text.strip() for one in found]


@dataclasses.dataclass(frozen=True)
class ThereAndBack:
    """Translations into another language are drawn, and each is translated back (Sennrich et al. 2016, Edunov 2018).

    Attributes:
        there, back: two translators, of one model or of two.
        seed: of the draws.
    """

    there: Translator
    back: Translator
    seed: int = 0

    def __call__(self, text: str, count: int) -> list[str]:
        if not text.strip():
            return []
        abroad = [one for one in self.there([text], count, self.seed) if one]
        return self.back(abroad, 1, self.seed) if abroad else []


@dataclasses.dataclass(frozen=True)
class Rephrasing:
    """A decoder is asked to say a text in other words, as a conversation where it has a chat template.

    Attributes:
        model: a decoder.
        instruction: what it is asked; ``{text}`` is the text.
        temperature: of the draws. seed: of the draws.
    """

    model: Model
    instruction: str = "Say the following in other words. Keep its meaning and its tone.\n\n{text}"
    temperature: float = 0.8
    seed: int = 0

    def __call__(self, text: str, count: int) -> list[str]:
        from variorum.inference.chat import answer
        from variorum.inference.texts import write
        from variorum.text.chat import has_template

        asked, talks = self.instruction.replace("{text}", text), has_template(tokenizer_of(self.model))
        found = []
        for number in range(count):
            choice: dict[str, Any] = {
                "do_sample": True, "temperature": self.temperature, "seed": self.seed + number,
                "max_new_tokens": min(MOST_TOKENS, 16 + len(text)),
            }  # fmt: skip
            if talks:
                said = answer(self.model, [{"role": "user", "content": asked}], **choice).text
            else:
                said = write(self.model, [f"{asked}\n\nIn other words:"], stop_strings=("\n",), **choice)[0].text
            found.append(said.strip().strip('"').strip())
        return found
