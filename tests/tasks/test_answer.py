"""Answers from a context: the best span there is, found over all windows, or none; exact in the text as written."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from tests.tasks import writers
from tests.tasks.published import published
from variorum import tasks
from variorum.errors import UsageError
from variorum.tasks import best_spans
from variorum.tasks.answer import Answerer
from variorum.tasks.best_spans import Search
from variorum.tasks.contexts import contexts
from variorum.tasks.questions import Answers, located
from variorum.tasks.token_scores import token_scores
from variorum.tasks.windows import Viewing
from variorum.text import Tokenizer

Get = Callable[[str], Tokenizer]
TINY = {"epochs": 2, "learning_rate": 1e-3, "batch_size": 8, "max_length": 32, "stride": 9, "validation": 0.2}
FILLER = ["the", "man", "in", "want", "of", "a", "wife", "was", "acknowledged", "and", "single"]


def rows(count: int, *, none: bool, longest: int = 40) -> tuple[list[tuple[str, str]], list[str]]:
    """Contexts of which each says one name; some questions ask what is not said."""
    rng = random.Random(4)
    X, y = [], []
    for number in range(count):
        words = rng.choices(FILLER, k=rng.randint(8, longest))
        says = not (none and number % 3 == 0)
        if says:
            words.insert(rng.randint(0, len(words)), "Darcy")
        X.append(("Who is named ?", " ".join(words)))
        y.append("Darcy" if says else "")
    return X, y


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, tokenizers: Get) -> str:
    folder = tmp_path_factory.mktemp("published") / "start"
    published(folder, tokenizers("uncased"))
    return str(folder)


@pytest.fixture(scope="module")
def learned(place: str) -> Answerer:
    return Answerer(place, **TINY).fit(*rows(24, none=True))


@pytest.mark.mechanism("H3")
@pytest.mark.parametrize("longest", [1, 4, 30])
def test_the_best_span_is_the_best_of_all_pairs_in_all_windows(learned: Answerer, longest: int):
    X, _ = rows(6, none=False)
    read = contexts(learned.model_.tokenizer, X, Viewing(max_length=32, stride=9))
    assert max(len(one.shown) for one in read) > 2
    for context, said in zip(
        read, best_spans.read(learned.model_, read, Search(longest=longest, count=7)), strict=True
    ):
        best: dict[tuple[int, int], float] = {}
        nothing = []
        for view, at in zip(context.shown, context.nothing, strict=True):
            scores = token_scores(learned.model_, [view.encoding])[0].numpy()
            nothing.append(float(scores[at].sum()))
            for first in range(*view.tokens):
                for last in range(first, min(first + longest, view.tokens[1])):
                    score = float(scores[view.place(first), 0] + scores[view.place(last), 1])
                    best[first, last] = max(score, best.get((first, last), -np.inf))
        expected = sorted(best.values(), reverse=True)[:7]
        assert [one.score for one in said.candidates] == pytest.approx(expected, abs=1e-5)
        assert said.none == pytest.approx(1 / (1 + np.exp(expected[0] - min(nothing))), abs=1e-5)
        for one in said.candidates:
            assert 0 <= one.first <= one.last < one.first + longest <= len(context.offsets) + longest
            assert best[one.first, one.last] == pytest.approx(one.score, abs=1e-5)


@pytest.mark.mechanism("H3")
def test_transformers_gives_the_same_scores_and_what_is_saved_the_same_answers(learned: Answerer, tmp_path: Path):
    X, _ = rows(6, none=True)
    learned.save(tmp_path / "model")
    again = tasks.load(tmp_path / "model")
    assert isinstance(again, Answerer)
    assert again.threshold_ == learned.threshold_
    assert again.answers(X) == learned.answers(X)
    other = transformers.AutoModelForQuestionAnswering.from_pretrained(tmp_path / "model").eval()
    (context,) = contexts(learned.model_.tokenizer, X[:1], Viewing(max_length=64))
    encoding = context.shown[0].encoding
    with torch.no_grad():
        out = other(torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids]))
    ours = token_scores(learned.model_, [encoding])[0]
    assert (ours - torch.stack([out.start_logits[0], out.end_logits[0]], -1)).abs().max() < 1e-5


def test_it_learns_where_the_answer_stands(place: str):
    X, y = rows(60, none=False)
    model = Answerer(place, **{**TINY, "epochs": 20, "learning_rate": 3e-3, "max_length": 64}).fit(X, y)
    figures = model.evaluate(X, y)
    assert figures["exact"] > 0.9 and figures["rules"] == "SQuAD 1.1"
    assert model.threshold_ == 1.0  # no question of these was without an answer
    for (_, context), answer in zip(X, model.answers(X), strict=True):
        assert context[answer["start"] : answer["end"]] == answer["answer"]
    best = model.nbest(X[:1], 5)[0]
    assert len(best) == 5
    assert [one.probability for one in best] == sorted((one.probability for one in best), reverse=True)


@pytest.fixture(scope="module", params=["question_answering", "answer_span"])
def xlnet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answerer:
    """With a head that scores beginnings and ends apart, and with its own, which chooses the end for the beginning."""
    X, y = rows(60, none=True, longest=12)
    start = writers.small(tmp_path_factory.mktemp("xlnet") / "start", "xlnet", [text for pair in X for text in pair])
    how = {**TINY, "epochs": 12, "learning_rate": 3e-3, "max_length": 64, "validation": 0.0}
    return Answerer(start, head=request.param, **how).fit(X, y)


@pytest.mark.mechanism("H3")
def test_xlnet_learns_answers_and_that_there_is_none_with_either_head(xlnet: Answerer, tmp_path: Path):
    X, y = rows(60, none=True, longest=12)
    figures = xlnet.evaluate(X, y)
    assert figures["rules"] == "SQuAD 2.0"
    assert figures["answerable"]["exact"] > 0.9 and figures["unanswerable"]["exact"] > 0.9
    for (_, context), answer in zip(X, xlnet.answers(X), strict=True):
        assert answer["start"] is None or context[answer["start"] : answer["end"]] == answer["answer"]
    xlnet.save(tmp_path / "model")
    again = tasks.load(tmp_path / "model")
    assert again.answers(X) == xlnet.answers(X)


@torch.no_grad()
@pytest.mark.mechanism("H3")
def test_transformers_reads_either_head_of_xlnet_to_the_same_probabilities(xlnet: Answerer, tmp_path: Path):
    X, _ = rows(6, none=True, longest=12)
    xlnet.save(tmp_path / "model")
    apart = xlnet.head == "question_answering"
    kind = transformers.XLNetForQuestionAnsweringSimple if apart else transformers.XLNetForQuestionAnswering
    other = kind.from_pretrained(tmp_path / "model").eval()
    for context in contexts(xlnet.model_.tokenizer, X, Viewing(max_length=64)):
        encoding = context.shown[0].encoding
        given = {"input_ids": torch.tensor([encoding.ids]), "token_type_ids": torch.tensor([encoding.type_ids])}
        ours, theirs = xlnet.model_(**given), other(**given)
        if apart:
            right = torch.stack([theirs.start_logits, theirs.end_logits], -1).softmax(1)
            assert (ours.logits.softmax(1) - right).abs().max() < 1e-6
        else:
            found = ours.answers
            assert (
                found.start_scores - theirs.start_top_log_probs
            ).abs().max() < 1e-6  # probabilities, whatever its name
            ends = theirs.end_top_log_probs.view(1, 5, 5).transpose(1, 2)
            assert (found.end_scores - ends).abs().max() < 1e-6
            assert (found.no_answer.sigmoid() - theirs.cls_logits.sigmoid()).abs().max() < 1e-6


@pytest.mark.case("V061")
def test_an_empty_context_has_no_answer(learned: Answerer):
    (answer,) = learned.answers([("Who is named ?", "")])
    assert (answer["answer"], answer["start"], answer["none"]) == ("", None, 1.0)


@pytest.mark.case("V061")
def test_a_question_that_fills_the_window_is_refused(learned: Answerer):
    with pytest.raises(UsageError, match="row 2: no room for a single token of the text; raise max_length"):
        learned.predict([("Who ?", "Darcy"), ("the man " * 40, "Darcy")])


@pytest.mark.parametrize(
    ("given", "texts", "starts"),
    [
        ("Darcy", ("Darcy",), ()),
        ("", (), ()),
        (None, (), ()),
        (["Darcy", "Mr. Darcy"], ("Darcy", "Mr. Darcy"), ()),
        ({"text": ["Darcy"], "answer_start": [4]}, ("Darcy",), (4,)),
        ({"text": [], "answer_start": []}, (), ()),
        ('{"text": ["Darcy"], "answer_start": [4]}', ("Darcy",), (4,)),
        ([{"text": "Darcy", "answer_start": 4}], ("Darcy",), (4,)),
        ("[sic] Darcy", ("[sic] Darcy",), ()),
        ("unknown", (), ()),
    ],
)
def test_answers_as_they_are_written_down(given: object, texts: tuple[str, ...], starts: tuple[int, ...]):
    assert Answers.of(given, none="unknown") == Answers(texts, starts)


def test_an_answer_that_stands_elsewhere_is_told(place: str):
    with pytest.raises(UsageError, match="row 1: the answer 'Darcy' does not stand at 3; it stands at 4"):
        Answerer(place).fit([("Who ?", "Mr. Darcy")], [{"text": ["Darcy"], "answer_start": [3]}])
    with pytest.raises(ValueError, match="it does not stand in the context"):
        Answerer().check(("Who ?", "Mr. Darcy"), {"text": ["Bingley"], "answer_start": [0]})


def test_an_answer_is_found_whatever_its_case_and_spaces():
    assert located("in 13 , 000 BP", "13,000 bp") == (3, 14)
    assert located("a b", "ab") == (0, 3)
    assert located("x", " ") is None
    assert Answers(("13,000 BP",)).right("in 13 , 000 BP") == ("13,000 BP", "13 , 000 BP")


@pytest.mark.parametrize("family", ["roberta", "bart", "albert", "xlnet", "t5", "deberta-v2"])
def test_what_stands_for_no_answer_is_the_class_token_where_there_is_one(tokenizers: Get, family: str):
    tokenizer = tokenizers(family)
    (one,) = contexts(tokenizer, [("the man", "in want of a wife")], Viewing(max_length=64))
    encoding, at = one.shown[0].encoding, one.nothing[0]
    expected = {"xlnet": len(encoding) - 1}.get(family, 0)
    assert at == expected
    texts = [which for which in encoding.sequence_ids if which is not None]
    assert texts == sorted(texts)
    assert one.text[slice(*one.characters(0, 1))] == one.text[: one.offsets[1][1]].strip()
