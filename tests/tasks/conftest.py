"""Tokenizers of every kind, made as the tests of text make them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.text.conftest import MAKERS
from variorum.text import Tokenizer, load_tokenizer


@pytest.fixture(scope="session")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tokenizer]:
    """A tokenizer by the name of its family; each is trained when first asked for."""
    made: dict[str, Tokenizer] = {}
    root: Path = tmp_path_factory.mktemp("tokenizers")

    def get(name: str) -> Tokenizer:
        if name not in made:
            (root / name).mkdir()
            MAKERS[name](root / name)
            made[name] = load_tokenizer(root / name)
        return made[name]

    return get
