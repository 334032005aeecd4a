"""What is fine-tuned reads the same in transformers: probabilities of texts, pairs, words and places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from variorum.inference.encode import tensors
from variorum.tasks.answer import Answerer
from variorum.tasks.classify import Classifier
from variorum.tasks.contexts import contexts
from variorum.tasks.estimator import Estimator
from variorum.tasks.pairs import PairClassifier, PairRegressor
from variorum.tasks.tag import Tagger
from variorum.tasks.token_scores import token_scores
from variorum.tasks.windows import Viewing

GATE = 1e-6
ENCODERS = ("roberta", "distilbert", "electra", "albert", "deberta", "deberta-v3", "xlnet")
"""Of BERT and of decoders the tests of each task see to it."""
TEXTS = [f"{word} and {other}" for word in ("one", "two", "three") for other in ("four", "five", "six")]
QUICK = {"epochs": 1, "learning_rate": 1e-3, "batch_size": 8, "max_length": 24, "validation": 0}
encoders = pytest.mark.parametrize("name", ENCODERS)


def theirs(auto: Any, place: Path, task: Estimator) -> Any:
    """transformers' model of what is saved; it finds a value for every tensor, and none too many."""
    task.save(place)
    model, told = auto.from_pretrained(place, dtype=torch.float32, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    return model.eval()


def said(model: Any, task: Estimator, encoding: Any) -> Any:
    """What it says of one encoding, as ours reads it."""
    with torch.no_grad():
        return model(**tensors(task.model_, task.model_.tokenizer.pad([encoding])))


@pytest.mark.nightly  # pairs below are read by the same head
@pytest.mark.mechanism("H1")
@encoders
def test_texts_have_the_same_probabilities(name: str, tmp_path: Path) -> None:
    task = Classifier(f"nano:{name}", **QUICK).fit(TEXTS, ["a", "b", "c"] * 3)
    other = theirs(transformers.AutoModelForSequenceClassification, tmp_path / "tuned", task)
    assert list(other.config.id2label.values()) == ["a", "b", "c"]
    for text, mine in zip(TEXTS, task.predict_proba(TEXTS), strict=True):
        logits = said(other, task, task.encode(task.model_, [text])[0]).logits
        assert np.abs(mine - logits.double().softmax(-1)[0].numpy()).max() <= GATE


@pytest.mark.mechanism("H7")
@encoders
def test_pairs_have_the_same_probabilities_and_numbers(name: str, tmp_path: Path) -> None:
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    task = PairClassifier(f"nano:{name}", **QUICK).fit(pairs, ["a", "b", "c"] * 3)
    other = theirs(transformers.AutoModelForSequenceClassification, tmp_path / "tuned", task)
    for pair, mine in zip(pairs, task.predict_proba(pairs), strict=True):
        logits = said(other, task, task.encode(task.model_, [pair])[0]).logits
        assert np.abs(mine - logits.double().softmax(-1)[0].numpy()).max() <= GATE


@pytest.mark.mechanism("H2")
@encoders
def test_words_have_the_same_probabilities(name: str, tmp_path: Path) -> None:
    task = Tagger(f"nano:{name}", **QUICK).fit(TEXTS, ["B-X O B-Y"] * len(TEXTS))
    other = theirs(transformers.AutoModelForTokenClassification, tmp_path / "tuned", task)
    for text in TEXTS:
        encoding = task.model_.tokenizer.encode(text)
        mine, right = token_scores(task.model_, [encoding])[0], said(other, task, encoding).logits[0]
        assert (mine.softmax(-1) - right.softmax(-1)).abs().max() <= GATE


@pytest.mark.mechanism("H3")
@encoders
def test_places_have_the_same_probabilities(name: str, tmp_path: Path) -> None:
    pairs = [("which is it ?", text) for text in TEXTS]
    task = Answerer(f"nano:{name}", **QUICK).fit(pairs, [text.split()[0] for text in TEXTS])
    other = theirs(transformers.AutoModelForQuestionAnswering, tmp_path / "tuned", task)
    for context in contexts(task.model_.tokenizer, pairs, Viewing(max_length=24)):
        encoding = context.shown[0].encoding
        out, mine = said(other, task, encoding), token_scores(task.model_, [encoding])[0]
        right = torch.stack((out.start_logits[0], out.end_logits[0]), -1)
        assert (mine.softmax(0) - right.softmax(0)).abs().max() <= GATE


@pytest.mark.mechanism("H4")
def test_numbers_are_those_of_transformers_in_the_scale_of_the_table(tmp_path: Path) -> None:
    pairs = list(zip(TEXTS, reversed(TEXTS), strict=True))
    task = PairRegressor("nano", **QUICK).fit(pairs, np.arange(9.0) * 100)
    other = theirs(transformers.AutoModelForSequenceClassification, tmp_path / "tuned", task)
    for pair, mine in zip(pairs, task.predict(pairs), strict=True):
        right = float(said(other, task, task.encode(task.model_, [pair])[0]).logits) * task.deviation_ + task.mean_
        assert mine == pytest.approx(right, abs=GATE * task.deviation_)
