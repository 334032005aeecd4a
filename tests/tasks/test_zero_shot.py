"""Labels by their names alone: scores are what a plain forward over prompt and label gives, whatever the way."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

import variorum
from tests.cli import models
from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.face import Model
from variorum.tasks.zero_shot import Candidate, Template, read_template, scorer
from variorum.tasks.zero_shot.described import SCALE
from variorum.tasks.zero_shot.prompted import Prompted

SHORT = Template(instruction="", question="{text}", answer="is")
#: Of one token, of several, and one that is the beginning of another.
LABELS = [Candidate("just"), Candidate("x", "perfect never"), Candidate("be"), Candidate("be just")]
TEXTS = ["its Law", "The application should be", "Law"]


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def decoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return variorum.load(getattr(models, request.param)(tmp_path_factory.mktemp("decoder")))


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return variorum.load(models.bert(tmp_path_factory.mktemp("bert")))


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return variorum.load(models.t5(tmp_path_factory.mktemp("t5")))


def whole(model: Model, text: str) -> float:
    """The log-probability of all but the first token of a text, read at once."""
    ids = torch.tensor([model.tokenizer.encode(text, specials=False).ids])
    with torch.no_grad():
        scores = model(ids).logits[0, :-1].double().log_softmax(-1)
    return float(scores.gather(-1, ids[0, 1:, None]).sum())


def differences(scores: Sequence[float]) -> np.ndarray:
    """Scores up to what is common to all labels of a text."""
    return np.asarray(scores) - np.mean(scores)


@pytest.mark.mechanism("G5")
def test_a_label_scores_what_the_whole_text_with_it_does(decoder: Model) -> None:
    found = scorer(decoder, LABELS, template=SHORT).scores(TEXTS)
    for text, row in zip(TEXTS, found, strict=True):
        right = [whole(decoder, f"{text}\nis {one.said}") for one in LABELS]
        assert differences(row) == pytest.approx(differences(right), abs=1e-4)


@pytest.mark.mechanism("G5")
def test_examples_are_read_once_and_change_no_score(decoder: Model) -> None:
    template = Template(instruction="{labels}", question="{text}", answer="is", between="\n")
    labels, examples = LABELS[:2], [("Law", "just"), ("its", "x")]
    asked = scorer(decoder, labels, template=template, examples=examples)
    assert isinstance(asked, Prompted)
    head = "just, perfect never\nLaw\nis just\nits\nis perfect never\n"
    if decoder.spec.name == "gpt2":
        texts = ["be", "The"]  # its table of positions is short
    else:
        texts = TEXTS
    found = asked.scores(texts)
    for text, row in zip(texts, found, strict=True):
        right = [whole(decoder, f"{head}{text}\nis {one.said}") for one in labels]
        assert differences(row) == pytest.approx(differences(right), abs=1e-4)
    assert asked._prefixes is not None
    assert asked._prefixes.reused >= (len(texts) - 1) * asked._prefixes.piece


@pytest.mark.mechanism("G5")
def test_a_conversation_is_the_chat_template_s_with_examples_as_turns(tmp_path: Path) -> None:
    template = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}<assistant> "
    llama = variorum.load(models.llama(tmp_path))
    llama.tokenizer = dataclasses.replace(llama.tokenizer, files={"chat_template.jinja": template.encode()})
    asking = Template(instruction="{labels}?", question="{text}")
    found = scorer(llama, LABELS[:2], template=asking, examples=[("Law", "just")]).scores(TEXTS)
    plain = scorer(llama, LABELS[:2], template=dataclasses.replace(asking, chat=False)).scores(TEXTS)
    assert not np.allclose(found, plain)
    head = "<user> just, perfect never?\n\nLaw\n<assistant> just\n"
    for text, row in zip(TEXTS, found, strict=True):
        right = [whole(llama, f"{head}<user> {text}\n<assistant> {one.said}") for one in LABELS[:2]]
        assert differences(row) == pytest.approx(differences(right), abs=1e-4)


def test_a_text_scores_the_same_alone_and_among_others(decoder: Model) -> None:
    asked = scorer(decoder, LABELS, template=SHORT)
    together = asked.scores(TEXTS * 4)
    alone = np.vstack([asked.scores([text]) for text in TEXTS * 4])
    np.testing.assert_allclose(together, alone, atol=1e-4)


def test_the_mean_over_tokens_is_the_sum_over_their_number(decoder: Model) -> None:
    labels = [Candidate("just"), Candidate("never be perfect")]
    total = scorer(decoder, labels, template=SHORT).scores(TEXTS)
    mean = scorer(decoder, labels, template=dataclasses.replace(SHORT, combine="mean")).scores(TEXTS)
    lengths = [
        len(decoder.tokenizer.encode(f"a\nis {one.said}").ids) - len(decoder.tokenizer.encode("a\nis").ids)
        for one in labels
    ]
    np.testing.assert_allclose(mean * lengths, total, atol=1e-6)


def test_an_encoder_decoder_reads_the_prompt_and_scores_the_label(t5: Model) -> None:
    found = scorer(t5, LABELS, template=SHORT).scores(TEXTS)
    start = t5.spec.architecture.main.tokens.start_id
    for text, row in zip(TEXTS, found, strict=True):
        ids = torch.tensor([t5.tokenizer.encode(f"{text}\nis").ids])
        for one, score in zip(LABELS, row, strict=True):
            label = t5.tokenizer.encode(one.said, specials=False).ids
            with torch.no_grad():
                logits = t5(ids, decoder_input_ids=torch.tensor([[start, *label[:-1]]])).logits[0]
            right = logits.double().log_softmax(-1)[range(len(label)), label].sum()
            assert score == pytest.approx(float(right), abs=1e-4)


def test_a_masked_model_scores_words_at_its_masks(bert: Model) -> None:
    words = [Candidate("law"), Candidate("a", "just"), Candidate("b", "never perfect")]
    template = Template(question="{text}", answer="is")
    found = scorer(bert, words, template=template).scores(texts := ["its Law [MASK]", "should be"])
    for text, row in zip(texts, found, strict=True):
        tokenizer = bert.tokenizer
        plain = tokenizer.encode(text, specials=False).ids
        for number, one in enumerate(words):
            label = tokenizer.encode(one.said, specials=False).ids
            masks = len(label)
            ending = [*tokenizer.encode("is", specials=False).ids, *[tokenizer.mask_id] * masks]
            dot = tokenizer.encode(".", specials=False).ids
            ids = [tokenizer.cls_id, *plain, *ending, *dot, tokenizer.sep_id]
            at = 1 + len(plain) + len(ending) - masks
            with torch.no_grad():
                logits = bert(torch.tensor([ids])).logits[0, at : at + masks]
            right = logits.double().log_softmax(-1)[range(masks), label].sum()
            assert row[number] == pytest.approx(float(right), abs=1e-4)


def test_a_text_that_is_too_long_keeps_its_masks(bert: Model) -> None:
    found = scorer(bert, LABELS[:2]).scores(["law " * 400])
    assert np.isfinite(found).all()


def test_an_encoder_compares_vectors_of_texts_and_descriptions(bert: Model) -> None:
    found = scorer(bert, LABELS[:2], way="description").scores(TEXTS)
    texts = bert.embed(TEXTS).double()
    descriptions = bert.embed(["This text is about just.", "This text is about perfect never."]).double()
    right = SCALE * torch.nn.functional.cosine_similarity(texts[:, None], descriptions[None], dim=-1)
    np.testing.assert_allclose(found, right.numpy(), atol=1e-4)


def test_what_cannot_be_asked_is_refused(bert: Model, decoder: Model, tmp_path: Path) -> None:
    for wrong in ([], [Candidate("a")], [Candidate("a"), Candidate("a")]):
        with pytest.raises(UsageError, match="labels"):
            scorer(bert, wrong)
    with pytest.raises(UsageError, match="examples"):
        scorer(bert, LABELS, examples=[("a", "just")])
    with pytest.raises(NotFound, match="other"):
        scorer(decoder, LABELS, examples=[("a", "other")])
    with pytest.raises(UsageError, match="text"):
        Template(question="no place")
    with pytest.raises(UsageError, match="product"):
        Template(combine="product")
    if decoder.spec.name == "gpt2":
        with pytest.raises(UsageError, match="longer than the 48"):
            scorer(decoder, LABELS, template=SHORT).scores(["law " * 100])
    place = tmp_path / "template.json"
    place.write_text(json.dumps({"answer": "Topic:"}))
    assert read_template(place).answer == "Topic:"
    place.write_text(json.dumps({"anser": "Topic:"}))
    with pytest.raises(NotFound, match="answer"):
        read_template(place)
    place.write_text("[1]")
    with pytest.raises(DamagedFile):
        read_template(place)
