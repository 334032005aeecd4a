"""Seeded strings that a tokenizer meets in the wild, and those it meets from people who test it.

``varied_strings`` mixes plain prose with every Unicode plane, combining marks, joined emoji,
right-to-left text, control characters, special tokens spelt out, runs of whitespace and long words.
Equal arguments give equal lists on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable


def _words(line: str) -> list[str]:
    return line.split(" ")


WORDS = _words(
    "the of and it was that truth universally acknowledged single man possession good fortune must be in want wife "
    "Elizabeth Darcy Bennet Netherfield however don't can't it's isn't we'll I'd HELLO World tokenization "
    "unbelievable e-mail U.S.A. 3.14 1,000,000 2024-01-31 C++ naïve café résumé coöperate Ångström Straße "
    "İstanbul ΣΊΣΥΦΟΣ Όδυσσεύς привет мир Здравствуйте שלום עולם مرحبا بالعالم नमस्ते दुनिया हिन्दी ไทย ภาษาไทย "
    "한국어 조선말 日本語 東京 中文 字符 漢字 カタカナ ひらがな ﬁne ﬂow Ａｆｕｌｌ ½ ² № ™ … — “quoted” ‘single’ "
    "«guillemets» ``tex quotes'' don`t x=y+1 foo_bar __init__ https://example.org/a?b=c&d=%20 #tag @user \\n \\t"
)
SPECIALS = _words(
    "[CLS] [SEP] [PAD] [MASK] [UNK] <s> </s> <pad> <unk> <mask> <cls> <sep> <eop> <eod> <extra_id_0> <extra_id_99> "
    "<|endoftext|> [INST] [/INST] <0x41> ▁ ## Ġ <SPECIAL_20>"
)
SPACES = [
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "\u00a0",
    "\u2003",
    "\u3000",
    "\u200b",
    "\u2028",
    "\v",
    "\f",
    "\u0085",
]
CONTROLS = [
    "\x00",
    "\x01",
    "\x07",
    "\x1b",
    "\x7f",
    "\x80",
    "\x9f",
    "\ufeff",
    "\ufffd",
    "\ufffe",
    "\u202e",
    "\u200d",
    "\u2060",
    "\U000e0001",
]
MARKS = ["\u0300", "\u0301", "\u0308", "\u0327", "\u0345", "\u05b0", "\u064b", "\u093c", "\u0e34", "\u20dd", "\ufe0f"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "🇯🇵", "❤️", "👨🏿‍💻", "1️⃣", "🫠"]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~。、？！·¿¡।،؟…")
RANGES = [
    (0x20, 0x7E), (0xA1, 0x24F), (0x250, 0x36F), (0x370, 0x58F), (0x590, 0x8FF), (0x900, 0xDFF), (0xE00, 0x11FF),
    (0x1E00, 0x1FFF), (0x2000, 0x2BFF), (0x3040, 0x30FF), (0x3400, 0x9FFF), (0xAC00, 0xD7A3), (0xE000, 0xF8FF),
    (0xF900, 0xFFFD), (0x10000, 0x1FFFF), (0x20000, 0x2FFFF), (0x30000, 0x3FFFF), (0x40000, 0xDFFFF),
    (0xE0000, 0xEFFFF), (0xF0000, 0x10FFFF),
]  # fmt: skip


def _codepoint(rng: random.Random) -> str:
    low, high = rng.choice(RANGES)
    return chr(rng.randint(low, high))


def _accented(rng: random.Random) -> str:
    return "".join(letter + rng.choice(["", *MARKS]) for letter in rng.choice(WORDS))


def _digits(rng: random.Random) -> str:
    return "".join(rng.choice("0123456789.,") for _ in range(rng.randint(1, 12)))


def _run(rng: random.Random) -> str:
    return rng.choice(["a", "ab", "=", "-", " ", "\n", "é", "中", "😀", "0", "A"]) * rng.choice([2, 3, 5, 8, 17, 40])


def _long_word(rng: random.Random) -> str:
    return "".join(rng.choice("abcdefghijklmnopqrstuvwxyzäöé") for _ in range(rng.choice([60, 99, 100, 101, 130])))


MAKERS: list[tuple[int, Callable[[random.Random], str]]] = [
    (60, lambda rng: rng.choice(WORDS)),
    (8, lambda rng: rng.choice(PUNCTUATION)),
    (8, lambda rng: rng.choice(SPACES)),
    (6, _codepoint),
    (4, _accented),
    (4, _digits),
    (3, lambda rng: rng.choice(EMOJI)),
    (3, lambda rng: rng.choice(SPECIALS)),
    (2, lambda rng: rng.choice(CONTROLS)),
    (2, lambda rng: rng.choice(MARKS)),
    (1, _run),
    (1, _long_word),
]


def _one(rng: random.Random) -> str:
    makers = rng.choices([maker for _, maker in MAKERS], [weight for weight, _ in MAKERS], k=rng.randint(1, 14))
    joiners = rng.choices([" ", "", "  ", "\n"], [12, 5, 1, 1], k=len(makers))
    return "".join(maker(rng) + joiner for maker, joiner in zip(makers, joiners, strict=True))


def varied_strings(count: int, seed: int = 0) -> list[str]:
    """``count`` strings without lone surrogates; the first few are the shortest corner cases."""
    rng = random.Random(seed)
    corners = [
        "",
        " ",
        "   ",
        "\n",
        "\t \n",
        "\x00",
        "a",
        "é",
        "e\u0301",
        "中",
        "😀",
        "▁",
        "▁▁a",
        " a",
        "a ",
        "##a",
        "'s",
    ]
    corners += SPECIALS + CONTROLS + MARKS + SPACES + EMOJI
    return (corners + [_one(rng) for _ in range(max(0, count - len(corners)))])[:count]


def corpus(lines: int = 6000, seed: int = 7) -> list[str]:
    """Lines to train small vocabularies on: mostly words and digits, with some of everything else."""
    rng = random.Random(seed)
    out = []
    for _ in range(lines):
        words = rng.choices(WORDS, k=rng.randint(4, 16))
        if rng.random() < 0.3:
            words.append(_digits(rng))
        if rng.random() < 0.2:
            words.append(rng.choice(EMOJI) + rng.choice(PUNCTUATION))
        out.append(" ".join(words) + rng.choice([".", "?", "!", ",", ""]))
    return out
