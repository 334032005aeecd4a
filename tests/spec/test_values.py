"""A value is said in words, and becomes what its field holds, or nothing at all."""

from __future__ import annotations

import pytest

from variorum.errors import NotFound, UsageError
from variorum.family import find
from variorum.spec.architecture import At, pre
from variorum.spec.heads import TokenHead
from variorum.spec.norms import RMSNorm
from variorum.spec.positions import RelativeBuckets, Rotary, YarnScaling
from variorum.spec.recipe import Tokenizer
from variorum.spec.values import parsed, value_at, whole_path

STACK = "architecture.encoder"


def at(path: str, given: object, model: str = "bert") -> object:
    spec = find(model)
    return value_at(spec, whole_path(spec, path), given)


@pytest.mark.parametrize(
    ("path", "given", "value"),
    [
        ("width", "1e3", 1000),
        ("width", 512, 512),
        ("encoder.dropout", "0", 0.0),
        ("encoder.block.attention.scale", "-1e-3", -0.001),
        ("encoder.block.attention.window", "none", None),
        ("encoder.block.attention.window", "64", 64),
        ("encoder.block.attention.bias", "[query, key]", ("query", "key")),
        ("encoder.block.attention.bias", "query,key", ("query", "key")),
        ("encoder.block.attention.bias", [], ()),
        ("encoder.block.attention.bias", ["out"], ("out",)),
        ("encoder.block.feedforward.activation", "gelu_tanh", "gelu_tanh"),
        ("tokenizer.kind", "byte-bpe", "byte-bpe"),
        ("tokenizer.cased", "yes", True),
        ("tokenizer.cased", False, False),
        ("heads.masked_lm.tie", "encoder.input.table", "encoder.input.table"),
        ("heads.masked_lm.tie", "none", None),
        ("heads.next_sentence", "none", None),
        ("heads.replaced_token", "TokenHead(labels=1)", TokenHead(labels=1)),
        ("encoder.positions", "Rotary", Rotary()),
        ("encoder.positions", "Rotary(theta=5e5)", Rotary(theta=500_000.0)),
        ("encoder.positions", {"kind": "RelativeBuckets", "buckets": 8}, RelativeBuckets(buckets=8)),
        (
            "encoder.positions",
            "Rotary(scaling=YarnScaling(factor=4, original_length=512))",
            Rotary(scaling=YarnScaling(factor=4.0, original_length=512)),
        ),
        ("tokenizer.query", "query: ", "query: "),
        ("tokenizer.query", '"none"', "none"),
        ("tokenizer", {"kind": "unigram", "cased": "no"}, Tokenizer(kind="unigram", cased=False)),
        ("tokenizer", "Tokenizer(kind=byte_bpe)".replace("_", "-"), Tokenizer(kind="byte-bpe")),
        ("encoder.pattern", [{"layers": "0", "set": {"attention.window": 8}}],
         (At(layers="0", set={"attention.window": 8}),)),
        ("encoder.block.layout", "pre(RMSNorm(eps=1e-6))", pre(RMSNorm(eps=1e-6))),
        ("encoder.block.layout", {"kind": "pre", "norm": {"kind": "RMSNorm", "eps": 1e-6}}, pre(RMSNorm(eps=1e-6))),
        (
            "encoder.pattern",
            "At(layers='::3', set={'attention.window': 64, 'positions': Rotary(theta=1e4)})",
            (At(layers="::3", set={"attention.window": 64, "positions": Rotary()}),),
        ),
        ("encoder.pattern", [{"kind": "At", "layers": "1,4", "set": {"attention.window": "none"}}],
         (At(layers="1,4", set={"attention.window": None}),)),
    ],
)  # fmt: skip
def test_words_become_what_the_field_holds(path: str, given: object, value: object) -> None:
    found = at(path, given)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("path", "given", "kind", "said"),
    [
        ("encoder.block.attention.heads", "4.5", UsageError, "'4.5' is not a whole number"),
        ("encoder.block.attention.heads", True, UsageError, "True is not a whole number"),
        ("encoder.block.attention.heads", "none", UsageError, "'none' is not a whole number"),
        ("encoder.block.feedforward.activation", "gelu_tan", UsageError, "did you mean gelu_tanh"),
        ("encoder.block.attention.bias", "query,kee", UsageError, "did you mean key"),
        ("encoder.positions", "Rotay()", UsageError, "no 'Rotay' can stand here; did you mean Rotary"),
        ("encoder.positions", "LayerNorm(eps=1)", UsageError, "no 'LayerNorm' can stand here"),
        ("encoder.positions", "Rotary(thet=1)", NotFound, "Rotary has no field 'thet'; did you mean theta"),
        ("encoder.positions", "Rotary(10000)", UsageError, "Rotary takes its fields by name"),
        ("encoder.positions", "Rotary(theta=wide)", UsageError, "positions.theta: 'wide' is not a number"),
        ("encoder.positions", "__import__('os').system('id')", UsageError, "is not"),
        ("encoder.positions", {"theta": 3}, UsageError, "a table that does not say its kind; choose"),
        ("encoder.block.layout", "pre()", UsageError, "pre lacks norm"),
        ("encoder.final_norm", "RMSNorm", UsageError, "RMSNorm lacks eps"),
        ("encoder.pattern", "At(layers='0', set={'attention.windw': 3})", NotFound, "did you mean window"),
        ("encoder.pattern", "At(layers='0', set={'attention.window': wide})", UsageError, "is not a whole number or n"),
        ("encoder.pattern", "At(layers='0', set=3)", UsageError, "is no table of paths and values"),
        ("encoder.position", "none", NotFound, "did you mean positions"),
        ("encodr.depth", "3", NotFound, "did you mean encoder"),
        ("decoder.depth", "3", NotFound, "bert has no decoder; its layers are at encoder.depth"),
        ("heads.masked", "none", NotFound, "no head is called 'masked'; did you mean masked_lm"),
        ("heads.causal_lm", "none", NotFound, "causal_lm"),
        ("name", "x", NotFound, "a model has no 'name' to set"),
    ],
)
def test_what_no_field_holds_is_refused_with_what_is_near(
    path: str, given: object, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind) as refused:
        at(path, given)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "text", ["f(*x)", "f(**x)", "a if b else c", "[x for x in y]", "lambda: 0", "x[0]", "1 + 1", "("]
)
def test_text_that_is_no_value_stays_text(text: str) -> None:
    assert parsed(text) == text
