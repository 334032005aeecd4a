"""The decision map, rule by rule: what is taken, what comes next, and that every rule says its price and its end."""

from __future__ import annotations

import json

import pytest

from tests.tools.command import refused, variorum
from variorum.family import models
from variorum.family.choice import RULES, choose

pytestmark = pytest.mark.mechanism("M")

MAP = [
    ("generation", (), "llama-3", "qwen3"),
    ("understanding", (), "modernbert", "deberta-v3"),
    ("embedding", (), "all-minilm", "bge"),
    ("transduction", (), "flan-t5", "bart"),
    ("generation", ("compute",), "mixtral", "qwen3-moe"),
    ("understanding", ("mask-artefact",), "xlnet", "electra"),
    ("understanding", ("recipe",), "roberta", "modernbert"),
    ("understanding", ("position-content",), "deberta-v3", "xlnet"),
    ("understanding", ("size",), "albert", "distilbert"),
    ("classification", ("latency",), "distilbert", "minilm"),
    ("understanding", ("training-signal",), "electra", "deberta-v3"),
    ("understanding", ("long-context",), "modernbert", "longformer"),
    ("generation", ("long-context",), "gemma-3", "mistral"),
    ("generation", ("kv-memory",), "deepseek-v3", "gemma-3"),
    ("generation", ("size",), "smollm2", "gemma-3"),
    ("classification", ("many-labels",), "modernbert", "bert"),
    ("classification", ("few-labels",), "llama-3", "flan-t5"),
    ("classification", ("indian-languages",), "muril", "xlm-roberta"),
    ("embedding", ("many-languages",), "xlm-roberta", "muril"),
    ("transduction", ("noisy-text",), "byt5", "mt5"),
    ("classification", ("indian-languages", "latency"), "muril", "xlm-roberta"),
]


@pytest.mark.parametrize(("need", "constraints", "model", "instead"), MAP)
def test_the_map(need, constraints, model, instead):
    found = choose(need, constraints)
    assert (found[0].model, found[0].instead) == (model, instead)
    assert len(found) >= len(constraints) + 1


def test_every_rule_is_in_the_map_and_complete():
    assert {choose(need, constraints)[0].id for need, constraints, _, _ in MAP} == {rule.id for rule in RULES}
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.because and rule.price and rule.until
        assert {rule.model, rule.instead} <= models().keys() and rule.model != rule.instead


def test_an_encoder_is_never_asked_to_write_and_a_writer_is_one():
    for rule in RULES:
        if "generation" in rule.needs:
            assert models()[rule.model].architecture.decoder is not None
        if rule.needs == ("transduction",):
            stacks = models()[rule.model].architecture.stacks
            assert {"encoder", "decoder"} <= stacks.keys()


def test_the_command_says_why_and_until_where():
    done = variorum("choose", "--need", "classification", "--constraint", "latency")
    assert done.stdout.startswith("distilbert: ") and "until" in done.stdout and "runner-up  minilm" in done.stdout
    rows = json.loads(variorum("choose", "--need", "generation", "--format", "json").stdout)
    assert rows[0]["model"] == "llama-3"
    assert "one of compute" in refused("choose", "--need", "generation", "--constraint", "mask-artefact", code=2)
