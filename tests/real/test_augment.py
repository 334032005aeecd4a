"""Variants by weights that people run: other words in the same frame, and the same thing said otherwise."""

from __future__ import annotations

import pytest

import variorum
from tests.tools.weights import need
from variorum.tasks.augment.replacing import Replacing
from variorum.tasks.augment.rewriting import Rephrasing

pytestmark = pytest.mark.real_weights
TEXT = "The plot of this film was slow, but the actors were good."


def test_bert_tiny_puts_other_words_in_the_frame_of_a_text() -> None:
    variants = Replacing(variorum.load(need("bert-tiny")), share=0.2)(TEXT, 6)
    old = TEXT.split()
    changed = 0
    for one in variants:
        new = one.split()
        assert len(new) == len(old)
        different = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
        assert len(different) <= 2
        assert all(a[-1].isalpha() == b[-1].isalpha() for a, b in different)
        changed += bool(different)
    assert changed >= 5
    assert len(set(variants)) >= 4


def test_smollm_says_a_text_in_other_words() -> None:
    model = variorum.load(need("smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf", weights="float32")
    [said] = Rephrasing(model)(TEXT, 1)
    assert said and said != TEXT
    assert any(word in said.lower() for word in ("film", "movie", "plot", "actor", "story"))
