"""An encoder-decoder learns to write, writes as it was told, and is read by others as it was saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from sklearn.base import clone

from tests.cli import models
from tests.tasks import writers
from variorum import tasks
from variorum.errors import NotFound, UsageError
from variorum.tasks.seq2seq import Seq2Seq, likelihood

NUMBERS = {"one": "uno", "two": "dos", "three": "tres", "four": "cuatro", "five": "cinco", "six": "seis"}
X, Y = list(NUMBERS) * 6, list(NUMBERS.values()) * 6


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> str:
    return writers.t5(tmp_path_factory.mktemp("seq2seq") / "t5", [*X, *Y, "say: "])


@pytest.fixture(scope="module")
def learned(t5: str) -> Seq2Seq:
    return Seq2Seq(model=t5, prefix="say: ", max_target_length=12, **writers.HOW).fit(X, Y)


@pytest.mark.mechanism("G3")
def test_it_learns_to_write_what_it_was_shown(learned: Seq2Seq) -> None:
    assert list(learned.predict(list(NUMBERS))) == list(NUMBERS.values())
    assert learned.answers(["two"]) == [{"target": "dos"}]
    figures = learned.evaluate(X, Y)
    assert figures["exact"] == 1
    assert figures["chrf"] == pytest.approx(100)
    assert figures["rows"] == len(X)
    losses = [epoch.loss for epoch in learned.history_.epochs]
    assert losses[-1] < 0.2 * losses[0]


def test_what_is_saved_writes_the_same_here_and_in_transformers(learned: Seq2Seq, tmp_path: Path) -> None:
    learned.save(tmp_path / "model")
    again = tasks.load(tmp_path / "model")
    assert isinstance(again, Seq2Seq)
    assert (again.prefix, again.max_target_length) == ("say: ", 12)
    assert list(again.predict(list(NUMBERS))) == list(NUMBERS.values())
    settings = json.loads((tmp_path / "model" / "generation_config.json").read_text("utf-8"))
    assert settings["max_new_tokens"] == 12
    other = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "model")
    ids = again.model_.tokenizer.encode("say: three").ids
    written = other.generate(torch.tensor([ids]))[0].tolist()
    assert again.model_.tokenizer.decode(written).strip() == "tres"


@pytest.mark.mechanism("G3")
@pytest.mark.parametrize("name", ["t5", "bart"])
def test_what_is_tuned_gives_every_token_the_same_probability_in_transformers(name: str, tmp_path: Path) -> None:
    start = writers.small(tmp_path / "start", name, [*X, *Y], head="seq2seq_lm")
    task = Seq2Seq(start, max_target_length=12, epochs=1, learning_rate=1e-3).fit(X, Y)
    task.save(tmp_path / "tuned")
    other = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "tuned", dtype=torch.float32).eval()
    for example in task.examples(task.model_, task.asked(X[:6]), task.told(Y[:6])):
        given = {"input_ids": torch.tensor([example.inputs["input_ids"]]), "labels": torch.tensor([example.target])}
        with torch.no_grad():
            mine, theirs = (model(**given).logits.softmax(-1) for model in (task.model_, other))
        assert (mine - theirs).abs().max() < 1e-6


def test_every_epoch_is_judged_by_how_likely_the_right_texts_are(learned: Seq2Seq) -> None:
    examples = learned.examples(learned.model_, learned.asked(X[:5]), learned.told(Y[:5]))
    total = count = 0.0
    for example in examples:
        labels = torch.tensor([example.target])
        with torch.no_grad():
            out = learned.model_(torch.tensor([example.inputs["input_ids"]]), labels=labels)
        total, count = total - float(out.loss) * labels.shape[1], count + labels.shape[1]
    assert likelihood(learned.model_, examples) == pytest.approx(total / count, rel=1e-4)
    assert max(e.score for e in learned.history_.epochs) == learned.history_.score


def test_beams_and_cuts_are_as_told(learned: Seq2Seq) -> None:
    searched = clone(learned).set_params(num_beams=3)
    searched.model_ = learned.model_
    assert list(searched.predict(["six", "one"])) == ["seis", "uno"]
    short = clone(learned).set_params(max_target_length=1)
    short.model_ = learned.model_
    beginnings = zip(short.predict(list(NUMBERS)), NUMBERS.values(), strict=True)
    assert all(right.startswith(text) and text != right for text, right in beginnings)


@pytest.mark.mechanism("O13")
def test_smoothed_labels_are_learned_and_leave_the_model_as_it_was(t5: str) -> None:
    task = Seq2Seq(model=t5, epochs=1, label_smoothing=0.2, validation=0.0).fit(X[:12], Y[:12])
    plain = Seq2Seq(model=t5, epochs=1, validation=0.0).fit(X[:12], Y[:12])
    assert task.model_.spec == plain.model_.spec
    assert task.history_.epochs[0].loss != plain.history_.epochs[0].loss
    assert task.history_.score is None


def test_rows_keep_their_order_and_an_empty_one_its_place(learned: Seq2Seq) -> None:
    found = learned.predict(["five", "", "two", "five " * 400, "one"])
    assert [found[i] for i in (0, 2, 4)] == ["cinco", "dos", "uno"]
    assert len(found) == 5
    assert found.dtype == object


def test_what_does_not_write_is_refused(t5: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="seq2seq_lm"):
        Seq2Seq(model=str(models.bert(tmp_path / "bert"))).fit(X, Y)
    with pytest.raises(UsageError, match="no language"):
        Seq2Seq(model=t5, source_language="de_DE").fit(X, Y)
    with pytest.raises(ValueError):
        Seq2Seq(model=t5).fit(X, Y[:-1])
    with pytest.raises(UsageError, match="expected text"):
        Seq2Seq(model=t5).fit(["a", "b"], [1, 2])
