"""Labels by weights that people run: above chance, corrected better than raw, and told as they are."""

from __future__ import annotations

import pytest

import variorum
from tests.tools import labelled
from tests.tools.weights import need
from variorum.face import Model
from variorum.tasks.labelling.correction import Correction
from variorum.tasks.labelling.job import Job, run
from variorum.tasks.trials import Rows
from variorum.tasks.zero_shot import Candidate
from variorum.text.corpora import sentiment

pytestmark = pytest.mark.real_weights


@pytest.fixture(scope="module")
def smollm() -> Model:
    need("smollm2")
    found = labelled.smollm()
    assert found is not None
    return found


@pytest.mark.mechanism("G5")
def test_a_small_decoder_tells_good_from_bad_without_an_example(smollm: Model) -> None:
    found = labelled.agreements(smollm, labelled.snippets(50), 0)
    assert found["content-free"].accuracy.value >= 0.85
    assert found["content-free"].accuracy.value >= found["none"].accuracy.value


@pytest.mark.mechanism("G5")
def test_examples_make_it_lean_and_the_correction_undoes_it(smollm: Model) -> None:
    found = labelled.agreements(smollm, labelled.snippets(108), 8)
    assert found["none"].accuracy.value <= 0.65  # nearly all get one label, as Zhao et al. 2021 found
    assert found["content-free"].accuracy.value >= 0.75


@pytest.mark.mechanism("G5")
def test_sentence_vectors_tell_domains_by_their_descriptions() -> None:
    model = variorum.load(need("minilm"))
    chosen = [one for one in sentiment()[::40] if one.domain in ("movie", "product")]
    rows = Rows([one.text for one in chosen], [one.domain for one in chosen])
    words = [Candidate("movie", "a film, its story and its actors"), Candidate("product", "something bought in a shop")]
    found = run(model, rows.texts[:1], Job(candidates=words, correction=Correction(by="texts")), rows)
    assert found.agreement is not None
    assert found.agreement.accuracy.value >= 0.75
