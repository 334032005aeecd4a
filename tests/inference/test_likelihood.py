"""Every token of a text is scored once, whoever reads it and however it is cut into windows."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from tests import tiny_specs
from tests.tiny_specs import DECODERS, SEQ2SEQ, gap, lm_head, made
from variorum.errors import UsageError
from variorum.inference.choices import answer_scores
from variorum.inference.likelihood import Question, Score, Windows, score, spans
from variorum.model import Model
from variorum.text import Tokenizer
from variorum.text.encoding import Wrapper

TEXTS = ["a first text of some words", "short", "and a third one, a little longer than the first is, é ü", ""]
FIRST, MASK, END = 1, 3, 2


class Letters:
    """An engine of one token for each of 40 kinds of letters, from id 6 on."""

    names = tuple(f"<{i}>" for i in range(6)) + tuple(chr(97 + i) for i in range(44))
    lookup = {name: i for i, name in enumerate(names)}  # noqa: RUF012
    special_ids = frozenset(range(6))

    def encode(self, texts, *, allow_special_text):
        return [([6 + ord(one) % 40 for one in text], [(i, i + 1) for i in range(len(text))]) for text in texts]

    def decode(self, ids, *, skip_special):
        return "".join(self.names[i] for i in ids)


def with_letters(model: Model, *around: int | str) -> Model:
    wrapper = Wrapper.of([(one, 0) for one in around], [("A", 0), ("B", 0)])
    model.tokenizer = Tokenizer(kind="bytes", engine=Letters(), wrapper=wrapper, special={"mask": "<3>"})
    return model


def losses(model: Model, ids: list[int]) -> torch.Tensor:
    """-log p of every token but the first, in one reading."""
    logits = model(torch.tensor([ids])).logits[0, :-1]
    return torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")


@pytest.mark.case("V088")
def test_a_mean_is_over_tokens_and_not_over_windows():
    pooled = Score(nats=9 * 2.0, tokens=9, bytes=30) + Score(nats=3 * 4.0, tokens=3, bytes=10)
    assert pooled == Score(nats=30.0, tokens=12, bytes=40)
    assert pooled.perplexity == pytest.approx(12.1825, abs=1e-4)
    assert pooled.bits_per_byte == pytest.approx(30 / 40 / math.log(2))
    assert math.isnan(Score().perplexity)


@pytest.mark.parametrize("count", [0, 1, 5, 8, 9, 23])
@pytest.mark.parametrize(("window", "stride"), [(8, 8), (8, 3), (8, 1), (1, 1), (40, 2)])
def test_windows_score_each_token_once_and_never_read_more_than_fits(count: int, window: int, stride: int):
    found = list(spans(count, window, stride))
    assert [at for _, done, end in found for at in range(done, end)] == list(range(count))
    assert all(end - begin <= window and begin <= done for begin, done, end in found)
    assert all(done - begin >= window - stride for begin, done, _ in found[1:])


@torch.no_grad()
@pytest.mark.case("V088")
@pytest.mark.parametrize("name", DECODERS)
def test_a_text_that_fits_is_as_likely_as_in_one_reading_whatever_stands_beside_it(name: str):
    model = with_letters(made(name, lm_head(name)), FIRST, "A")
    found = score(model, TEXTS)
    for text, own in zip(TEXTS, found, strict=True):
        whole = losses(model, model.tokenizer.encode(text).ids) if text else torch.zeros(0)
        assert own.nats == pytest.approx(float(whole.sum()), rel=1e-10)
        assert (own.tokens, own.bytes) == (len(text), len(text.encode()))


@torch.no_grad()
@pytest.mark.parametrize("name", DECODERS)
def test_windows_are_read_each_from_its_own_beginning(name: str):
    model = with_letters(made(name, lm_head(name)), FIRST, "A")
    ids = model.tokenizer.encode(TEXTS[2]).ids
    right = 0.0
    for begin, done, end in spans(len(ids) - 1, 16, 5):
        right += float(losses(model, ids[begin : end + 1])[done - begin :].sum())
    (found,) = score(model, TEXTS[2:3], windows=Windows(window=16, stride=5))
    assert found.nats == pytest.approx(right, rel=1e-10)
    assert found.tokens == len(TEXTS[2])


@torch.no_grad()
def test_without_a_token_before_the_text_the_first_is_not_scored_nor_are_its_bytes():
    model = with_letters(made("llama", "causal_lm"), "A")
    text = "éa word"
    (found,) = score(model, [text])
    assert (found.tokens, found.bytes) == (len(text) - 1, len(text.encode()) - 2)
    (begun,) = score(model, [text], windows=Windows(start="<1>"))
    assert (begun.tokens, begun.bytes) == (len(text), len(text.encode()))
    assert begun.nats == score(with_letters(model, FIRST, "A"), [text])[0].nats


@torch.no_grad()
@pytest.mark.parametrize("name", SEQ2SEQ)
def test_a_text_is_scored_beside_its_source_its_end_included(name: str):
    model = with_letters(made(name, "seq2seq_lm"), "A", END)
    sources = ["what is answered", "q", "another question", "?"]
    found = score(model, TEXTS, sources=sources)
    for text, source, own in zip(TEXTS, sources, found, strict=True):
        labels = torch.tensor([model.tokenizer.encode(text).ids])
        ids = torch.tensor([model.tokenizer.encode(source).ids])
        logits = model(ids, labels=labels).logits[0]
        right = torch.nn.functional.cross_entropy(logits, labels[0], reduction="sum")
        assert own.nats == pytest.approx(float(right), rel=1e-10)
        assert own.tokens == len(text) + 1


@torch.no_grad()
@pytest.mark.parametrize("name", ["bert", "deberta-v3", "roberta", "albert"])
def test_a_masked_model_is_asked_for_each_token_among_all_others(name: str):
    model = with_letters(made(name, "masked_lm"), FIRST, "A", END)
    text = "eleven words"
    ids = model.tokenizer.encode(text).ids
    right = 0.0
    for at in range(1, len(ids) - 1):
        hidden = torch.tensor([[*ids[:at], MASK, *ids[at + 1 :]]])
        right -= float(model(hidden).logits[0, at].log_softmax(-1)[ids[at]])
    (found,) = score(model, [text])
    assert found.nats == pytest.approx(right, rel=1e-9)
    assert found.tokens == len(text)
    (cut,) = score(model, [text], windows=Windows(window=7, stride=2))
    assert cut.tokens == len(text)
    assert cut.nats != pytest.approx(right)


def test_what_scores_no_words_is_refused():
    bert = with_letters(made("bert", "masked_lm"), FIRST, "A", END)
    with pytest.raises(UsageError, match="no source"):
        score(bert, ["a"], sources=["b"])
    with pytest.raises(UsageError, match="a source for each"):
        score(with_letters(made("t5", "seq2seq_lm"), "A", END), ["a"])
    with pytest.raises(UsageError, match="scores no words"):
        score(with_letters(made("electra", "replaced_token"), "A"), ["a"])
    with pytest.raises(UsageError, match="longer than the"):
        score(with_letters(made("gpt2", "causal_lm"), "A"), ["a"], windows=Windows(window=4000))
    for wrong in ({"window": 0}, {"stride": 0}, {"window": 4, "stride": 5}):
        with pytest.raises(UsageError):
            Windows(**wrong)


def test_a_question_that_asks_nothing_reads_nothing():
    assert dataclasses.asdict(score(with_letters(made("gpt2", "causal_lm"), FIRST, "A"), [""])[0]) == {
        "nats": 0.0, "tokens": 0, "bytes": 0,
    }  # fmt: skip
    assert Question(0, [1], [], []).source == ()


@torch.no_grad()
@pytest.mark.mechanism("G5")
@pytest.mark.parametrize("name", [*DECODERS, *SEQ2SEQ])
def test_answers_are_as_likely_as_one_reading_of_each_after_each_prompt_finds(name: str):
    model = made(name, lm_head(name))
    prompts = [[7, 8, 9, 10], [11], [12, 13]]
    answers = [[20, 21, 2], [22], [23, 24]]
    found = answer_scores(model, prompts, [answers] * len(prompts))
    right = torch.zeros(3, 3, dtype=torch.float64)
    for row, prompt in enumerate(prompts):
        for column, answer in enumerate(answers):
            if name in SEQ2SEQ:
                start = model.spec.architecture.main.tokens.start_id
                read = torch.tensor([[start, *answer[:-1]]])
                logits = model(torch.tensor([prompt]), decoder_input_ids=read).logits[0]
            else:
                logits = model(torch.tensor([[*prompt, *answer[:-1]]])).logits[0, len(prompt) - 1 :]
            right[row, column] = logits.log_softmax(-1).gather(-1, torch.tensor(answer)[:, None]).sum()
    assert gap(found, right) <= 1e-9 * float(right.abs().max())


def test_answers_need_a_token_and_somebody_who_writes():
    with pytest.raises(UsageError, match="without a token"):
        answer_scores(made("gpt2", "causal_lm"), [[7]], [[[8], []]])
    with pytest.raises(UsageError, match="cannot generate"):
        answer_scores(made("bert", "masked_lm"), [[7]], [[[8]]])
    assert answer_scores(made("gpt2", "causal_lm"), [], []).shape == (0, 0)
    assert len(Letters.names) == tiny_specs.VOCAB
