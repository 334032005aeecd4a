"""Labels by weights that people run: above chance, corrected better than raw, and told as they are."""

from __future__ import annotations

import random

import pytest

import variorum
from tests.tools.weights import need
from variorum.face import Model
from variorum.tasks.labelling.agreement import agreement
from variorum.tasks.labelling.correction import Correction, corrected
from variorum.tasks.labelling.examples import few
from variorum.tasks.labelling.job import Job, run
from variorum.tasks.trials import Rows
from variorum.tasks.zero_shot import Candidate, Template, scorer
from variorum.text.corpora import sentiment

pytestmark = pytest.mark.real_weights


def snippets(count: int) -> Rows:
    """Clearly rated snippets, as many good as bad, and no longer than a few lines."""
    rated = [one for one in sentiment() if abs(one.rating) > 2 and len(one.text) < 200]
    random.Random(0).shuffle(rated)
    halves = [[one for one in rated if (one.rating > 0) is good][: count // 2] for good in (True, False)]
    chosen = [one for pair in zip(*halves, strict=True) for one in pair]
    return Rows([one.text for one in chosen], ["good" if one.rating > 0 else "bad" for one in chosen])


@pytest.fixture(scope="module")
def smollm() -> Model:
    return variorum.load(need("smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf", weights="float32")


SENTIMENT = [Candidate("good", "positive"), Candidate("bad", "negative")]
TEMPLATE = Template(
    instruction="Is the review positive or negative?", question="Review: {text}", answer="Sentiment:", chat=False
)


def agreements(model: Model, rows: Rows, few_shot: int) -> list[float]:
    """The share of rows that are labelled as people did: as the model says, and with its leaning taken out."""
    shown, left = few(rows, few_shot)
    judge = scorer(model, SENTIMENT, template=TEMPLATE, examples=shown)
    scores = judge.scores(left.texts)
    found = []
    for how in (Correction(by="none"), Correction()):
        given = corrected(judge.labels, scores, how.prior(judge), how)
        found.append(agreement(left.labels, given.labels).accuracy.value)
    return found


@pytest.mark.mechanism("G5")
def test_a_small_decoder_tells_good_from_bad_without_an_example(smollm: Model) -> None:
    raw, without_leaning = agreements(smollm, snippets(50), 0)
    assert without_leaning >= 0.85
    assert without_leaning >= raw


@pytest.mark.mechanism("G5")
def test_examples_make_it_lean_and_the_correction_undoes_it(smollm: Model) -> None:
    raw, without_leaning = agreements(smollm, snippets(48), 8)
    assert raw <= 0.65  # nearly all get one label, as Zhao et al. 2021 found
    assert without_leaning >= 0.75


@pytest.mark.mechanism("G5")
def test_sentence_vectors_tell_domains_by_their_descriptions() -> None:
    model = variorum.load(need("minilm"))
    chosen = [one for one in sentiment()[::40] if one.domain in ("movie", "product")]
    rows = Rows([one.text for one in chosen], [one.domain for one in chosen])
    words = [Candidate("movie", "a film, its story and its actors"), Candidate("product", "something bought in a shop")]
    found = run(model, rows.texts[:1], Job(candidates=words, correction=Correction(by="texts")), rows)
    assert found.agreement is not None
    assert found.agreement.accuracy.value >= 0.75
