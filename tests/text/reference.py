"""The other side of a comparison: what the reference libraries give, in the shape of ours."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import sentencepiece
import transformers

from variorum.text import Encoding, Tokenizer

Wanted = list[tuple[list[int], list[tuple[int, int]]]]


def fast(directory: Path, **settings: Any) -> Any:
    """The ``transformers`` tokenizer of a directory, by the class that its settings name."""
    return transformers.AutoTokenizer.from_pretrained(directory, **settings)


def by_transformers(tokenizer: Any, texts: list[str], *, specials_in_text: bool = False, **options: Any) -> Wanted:
    made = tokenizer(texts, return_offsets_mapping=True, split_special_tokens=not specials_in_text, **options)
    return list(zip(made["input_ids"], made["offset_mapping"], strict=True))


def by_sentencepiece(model: Path, texts: list[str]) -> Wanted:
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    made = processor.Encode(texts, return_type="offset_mapping")
    return [(entry["ids"], entry["offsets"]) for entry in made]


def differing(texts: list[str], ours: list[Encoding], wanted: Wanted) -> list[str]:
    """A line for each text whose ids or offsets differ; empty when both sides agree everywhere."""
    assert len(texts) == len(ours) == len(wanted)
    return [
        f"{text!r}: {mine.tokens} {mine.offsets} against {theirs[0]} {theirs[1]}"
        for text, mine, theirs in zip(texts, ours, wanted, strict=True)
        if mine.ids != theirs[0] or mine.offsets != theirs[1]
    ][:5]


def wrong_decodings(tokenizer: Tokenizer, other: Any, encodings: list[Encoding], *, skip: bool) -> list[str]:
    """Ids whose text differs from the reference's decoding."""
    found = []
    for encoding in encodings:
        mine = tokenizer.decode(encoding.ids, skip_special=skip)
        theirs = other.decode(encoding.ids, skip_special_tokens=skip)
        if mine != theirs:
            found.append(f"{encoding.tokens}: {mine!r} against {theirs!r}")
    return found[:5]


def released_clean_up(text: str, *, lower: bool) -> str:
    """``preprocess_text`` of google-research/albert and zihangdai/xlnet, kept as they wrote it."""
    outputs = " ".join(text.strip().split())
    outputs = outputs.replace("``", '"').replace("''", '"')
    outputs = unicodedata.normalize("NFKD", outputs)
    outputs = "".join([c for c in outputs if not unicodedata.combining(c)])
    return outputs.lower() if lower else outputs
