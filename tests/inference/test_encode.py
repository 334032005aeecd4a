"""Reading: the inputs a tokenizer gives a model, vectors for sentences, and words for masks."""

from __future__ import annotations

import pytest
import torch

from tests.tiny_specs import gap, lm_head, shaken, tiny
from variorum.errors import UsageError
from variorum.face import Model, build
from variorum.inference.encode import longest_input, tensors
from variorum.inference.sentences import Recipe
from variorum.inference.vectors import embed
from variorum.spec.heads import EmbeddingHead
from variorum.text.train import train_wordpiece_by_frequency

LONG = "This is a very long text about a very cute bear " * 3
TEXTS = ["This teddy bear is so cute", "The bear is brown", "so", LONG]


def reader(name: str = "bert", head: str | None = "masked_lm") -> Model:
    """A tiny model whose vocabulary was learned from the texts above, none of it padding by chance."""
    tokenizer = train_wordpiece_by_frequency([*TEXTS, "it was cuddly"], 90)
    stacks = tiny(name).architecture.stacks
    vocab = {f"architecture.{stack}.input.vocab": tokenizer.vocab_size for stack in stacks}
    pads = {f"architecture.{stack}.input.pad_id": tokenizer.pad_id for stack in stacks}
    model = shaken(build(tiny(name, vocab | pads), head=head))
    model.tokenizer = tokenizer
    return model


@pytest.mark.mechanism("I1", "T7")
def test_two_sentences_become_cls_a_sep_b_sep_with_segments_padding_and_mask():
    model = reader()
    both = model.tokenizer.encode("This teddy bear is so cute", "it was cuddly")
    short = model.tokenizer.encode("so")
    given = tensors(model, model.tokenizer.pad([both, short]))
    first, second = given["input_ids"].tolist()
    kinds = given["token_type_ids"].tolist()
    cls, sep, pad = (model.tokenizer.special_id(role) for role in ("cls", "sep", "pad"))
    middle = first.index(sep)
    assert first[0] == second[0] == cls and first[-1] == sep and first.count(sep) == 2
    assert kinds[0] == [0] * (middle + 1) + [1] * (len(first) - middle - 1)
    assert second[2:] == [sep] + [pad] * (len(first) - 3)
    assert given["attention_mask"].tolist() == [[1] * len(first), [1] * 3 + [0] * (len(first) - 3)]


@pytest.mark.mechanism("G4")
def test_the_words_for_a_mask_are_the_likeliest_of_its_softmax_in_order():
    model = reader()
    text = "The [MASK] is so [MASK]"
    guesses = model.fill_mask(text, top_k=4)
    assert [guess.mask for guess in guesses] == [0] * 4 + [1] * 4
    encoding = model.tokenizer.encode(text, allow_special_text=True)
    logits = model(**tensors(model, model.tokenizer.pad([encoding]))).logits[0]
    for number, place in enumerate([i for i, t in enumerate(encoding.ids) if t == model.tokenizer.mask_id]):
        best = logits[place].softmax(-1).topk(4)
        mine = guesses[4 * number : 4 * number + 4]
        assert [guess.id for guess in mine] == best.indices.tolist()
        assert [guess.probability for guess in mine] == pytest.approx(best.values.tolist(), abs=1e-6)
        assert all(guess.token == model.tokenizer.id_to_token(guess.id) for guess in mine)
    assert guesses[0].text.endswith("is so [MASK]") and guesses[4].text.startswith("The [MASK] is so")


@pytest.mark.mechanism("G4")
def test_filling_needs_a_mask_and_a_head_for_it():
    with pytest.raises(UsageError, match=r"has no mask; write \[MASK\]"):
        reader().fill_mask("The bear is so cute")
    with pytest.raises(UsageError, match="no masked-language-model head"):
        reader("gpt2", "causal_lm").fill_mask("The [MASK]")


@pytest.mark.mechanism("H5", "A6")
@pytest.mark.parametrize("name", ["bert", "modernbert", "deberta-v3", "t5", "llama"])
def test_sentence_vectors_keep_their_order_and_do_not_depend_on_their_batch(name):
    model = reader(name, None if name != "t5" else lm_head("t5"))
    one_by_one = torch.cat([model.embed([text], batch_size=1) for text in TEXTS])
    assert gap(model.embed(TEXTS, batch_size=3), one_by_one) < 1e-12
    assert gap(one_by_one.norm(dim=-1), torch.ones(4).double()) < 1e-12
    assert gap(one_by_one[0], one_by_one[1]) > 1e-3


@pytest.mark.mechanism("H5")
def test_the_first_token_or_the_mean_of_the_real_ones():
    model = reader(head=None)
    encoding = model.tokenizer.encode(TEXTS[0])
    states = model(**tensors(model, model.tokenizer.pad([encoding]))).last_hidden_state[0]
    for pooling, right in (("first", states[0]), ("mean", states.mean(0))):
        padded, _ = embed(model, TEXTS, recipe=Recipe(head=EmbeddingHead(take=pooling, normalise=False)))
        assert gap(padded[0], right) < 1e-12


@pytest.mark.mechanism("P3", "H5")
def test_texts_longer_than_the_table_are_cut_and_counted():
    spec = {"architecture.encoder.input.positions.rows": 12}
    model = reader(head=None)
    short = shaken(build(model.spec.set(spec)))
    short.tokenizer = model.tokenizer
    assert longest_input(short) == 12 and longest_input(reader("modernbert", None)) is None
    vectors, cut = embed(short, TEXTS)
    assert vectors.shape == (4, 32) and cut == sum(len(model.tokenizer.encode(text).ids) > 12 for text in TEXTS) > 0


def test_a_model_without_a_tokenizer_says_so():
    with pytest.raises(UsageError, match="bert has no tokenizer; load it from a directory"):
        build(tiny("bert")).embed(["a"])
