"""What a configuration says of its heads is what the published library does: losses, dropout, and back to disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import variorum
from tests.parity import oracle
from tests.parity.models.bert import BERT
from tests.tiny_specs import words
from variorum.checkpoint.config import read_config, write_config
from variorum.errors import DamagedFile
from variorum.family import find
from variorum.family.names import dialect_for

NUMBERS = torch.tensor([[0.5, -1.0, 2.0], [0.0, 3.0, 1.0]], dtype=torch.float64)
HEAD = "architecture.heads.sequence_classification"


def published(directory: Path, **more: Any) -> Any:
    """A saved classifier of the library's, in float64."""
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**BERT, vocab_size=97, **more)).double()
    oracle.randomise(model, 0)
    oracle.save(model, directory)
    return model.eval()


@pytest.mark.mechanism("H4")
@pytest.mark.parametrize(
    ("said", "count", "problem", "labels"),
    [
        ("regression", 1, "regression", NUMBERS[:, 0]),
        ("regression", 3, "regression", NUMBERS),
        ("multi_label_classification", 3, "multi_label", (NUMBERS > 0).double()),
        ("single_label_classification", 3, "single_label", torch.tensor([2, 0])),
        (None, 1, "regression", NUMBERS[:, 0]),
        (None, 3, "single_label", torch.tensor([2, 0])),
    ],
)
def test_the_problem_type_gives_the_librarys_loss(said, count, problem, labels, tmp_path):
    theirs = published(tmp_path, num_labels=count, problem_type=said)
    model = variorum.load(tmp_path, dtype="float64")
    assert model.spec.architecture.heads["sequence_classification"].problem == problem
    ids = words(2, 9)
    ours, right = model(ids, labels=labels), theirs(ids, labels=labels)
    assert float(ours.loss) == pytest.approx(float(right.loss), rel=1e-12)
    model.save(tmp_path / "saved")
    again = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "saved", dtype=torch.float64)
    assert float(again(ids, labels=labels).loss) == pytest.approx(float(right.loss), rel=1e-12)


@pytest.mark.parametrize("problem", ["regression", "multi_label", "single_label"])
def test_a_fresh_head_writes_its_problem_so_that_it_is_read_again(problem):
    spec = find("bert").set({f"{HEAD}.problem": problem, f"{HEAD}.labels": 3})
    config = write_config(spec, dialect_for(spec), {}, ("sequence_classification",))
    head = read_config(config)[0].architecture.heads["sequence_classification"]
    assert head == spec.architecture.heads["sequence_classification"]


def test_an_unknown_problem_is_refused():
    with pytest.raises(DamagedFile, match="problem_type is 'ranking'; known: single_label_classification"):
        read_config({"model_type": "bert", "problem_type": "ranking"})


@pytest.mark.parametrize(("said", "rate"), [({}, 0.2), ({"classifier_dropout": 0.0}, 0.0)])
def test_dropout_before_a_classifier_is_the_models_own_unless_it_is_named(said, rate):
    spec, dialect = read_config({"model_type": "bert", "hidden_dropout_prob": 0.2, **said})
    heads = spec.architecture.heads
    names = ("sequence_classification", "token_classification", "multiple_choice")
    assert [heads[name].dropout for name in names] == [rate] * 3
    again = json.loads(json.dumps(write_config(spec, dialect, {}, ())))
    assert read_config(again)[0].architecture == spec.architecture
