"""Legal paths: the likeliest of all that a scheme allows, found without trying them all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from variorum.tasks.decoding import Rules, best_path, softmax
from variorum.tasks.schemes import SCHEMES, Scheme


@pytest.mark.mechanism("H2")
@pytest.mark.parametrize("which", SCHEMES.values(), ids=lambda one: one.name)
def test_the_path_is_legal_and_the_likeliest_of_all_that_are(which: Scheme):
    rng = np.random.default_rng(0)
    names = which.labels(["X", "Y"] if len(which.letters) < 3 else ["X"])
    rules = Rules.of(which, names)
    for words in (1, 2, 3, 4):
        for _ in range(10):
            chances = softmax(3 * rng.normal(size=(words, len(names))))
            legal = [
                path for path in itertools.product(range(len(names)), repeat=words)
                if not which.breaches([names[i] for i in path])
            ]  # fmt: skip
            best = max(legal, key=lambda path: sum(np.log(chances[word, tag]) for word, tag in enumerate(path)))
            assert best_path(chances, rules) == list(best)


def test_what_is_certain_yields_to_what_is_legal():
    which = SCHEMES["BIO"]
    names = which.labels(["X"])
    certain = np.eye(3)[[names.index("O"), names.index("I-X")]]
    assert not which.breaches([names[i] for i in best_path(certain, Rules.of(which, names))])


def test_no_words_have_no_tags():
    which = SCHEMES["BIO"]
    assert best_path(np.zeros((0, 3)), Rules.of(which, which.labels(["X"]))) == []
