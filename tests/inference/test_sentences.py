"""A directory of sentence-transformers gives the vectors that sentence-transformers gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import variorum
from tests.parity import oracle
from tests.parity.models.bert import BERT
from tests.tiny_specs import gap, made, tiny, words
from tests.tools.command import here as run
from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.family import find, models
from variorum.inference.sentences import Recipe, recipe_for, recipe_of
from variorum.spec.heads import EmbeddingHead
from variorum.spec.rules import check

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "bear", "is", "so", "cute", "brown", "teddy",
          "query", "passage", ":", "this", "##s", "long", "text"]  # fmt: skip
TEXTS = ["this teddy bear is so cute", "a brown bear", "the", "so long a text is so long a text is so long"]
PROMPTS = {"query": "query: ", "passage": "passage: "}
BGE = "Represent this sentence for searching relevant passages: "
GATE = 2e-6  # of the largest number, in float32


def published(directory: Path, pooling: str, *, norm: bool, longest: int = 12, **more: Any) -> tuple[Path, Any]:
    """A saved sentence-transformers model of random weights, and the model itself."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    bare = directory / "bare"
    bare.mkdir()
    (bare / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    model = transformers.BertModel(transformers.BertConfig(**BERT, vocab_size=len(PIECES)))
    oracle.randomise(model, 0)
    oracle.save(model, bare)
    transformers.BertTokenizer.from_pretrained(bare).save_pretrained(bare)
    parts = [Transformer(str(bare), max_seq_length=longest), Pooling(48, pooling, **more)]
    theirs = SentenceTransformer(modules=[*parts, *([Normalize()] if norm else [])], prompts=PROMPTS, device="cpu")
    theirs.save(str(directory / "saved"))
    return directory / "saved", theirs


def close(ours: torch.Tensor, theirs: np.ndarray) -> bool:
    return float(np.abs(ours.numpy() - theirs).max()) < GATE * max(1.0, float(np.abs(theirs).max()))


@pytest.mark.mechanism("H5")
@pytest.mark.parametrize(("pooling", "norm"), [("cls", True), ("mean", False), ("lasttoken", True), ("max", False)])
def test_vectors_equal_sentence_transformers(pooling, norm, tmp_path):
    directory, theirs = published(tmp_path, pooling, norm=norm)
    model = variorum.load(directory)
    assert close(model.embed(TEXTS, batch_size=3), theirs.encode(TEXTS))
    for name in PROMPTS:
        assert close(model.embed(TEXTS, prompt=name), theirs.encode(TEXTS, prompt_name=name))
    assert not close(model.embed(TEXTS, prompt="query"), theirs.encode(TEXTS))


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_prompt_that_is_not_to_be_pooled_is_only_read(pooling, tmp_path):
    directory, theirs = published(tmp_path, pooling, norm=True, include_prompt=False)
    model = variorum.load(directory)
    assert close(model.embed(TEXTS, prompt="query"), theirs.encode(TEXTS, prompt_name="query"))
    assert close(model.embed(TEXTS), theirs.encode(TEXTS))


def test_the_older_spelling_and_a_lone_pooling_say_the_same(tmp_path):
    directory, theirs = published(tmp_path, "cls", norm=False)
    (directory / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 48, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    (directory / "modules.json").unlink()
    assert close(variorum.load(directory).embed(TEXTS), theirs.encode(TEXTS))


def test_the_command_takes_a_prompt_and_refuses_one_that_is_not_there(tmp_path):
    directory, theirs = published(tmp_path, "mean", norm=True)
    out = tmp_path / "vectors.npy"
    run("embed", str(directory), "--text", *TEXTS, "--prompt", "query", "--out", str(out))
    assert float(np.abs(np.load(out) - theirs.encode(TEXTS, prompt_name="query")).max()) < GATE
    with pytest.raises(NotFound, match="has no prompt 'quary'; did you mean query"):
        variorum.load(directory).embed(TEXTS, prompt="quary")


def test_what_a_directory_leaves_open_the_spec_it_was_asked_for_by_knows(tmp_path):
    directory, theirs = published(tmp_path, "mean", norm=True)
    (directory / "config_sentence_transformers.json").unlink()  # as those of E5 are published
    model = variorum.load(directory)
    with pytest.raises(NotFound, match="it has none; write it into the texts"):
        model.embed(TEXTS, prompt="query")
    model.origin.asked = find("e5-small-v2")
    assert close(model.embed(TEXTS, prompt="query"), theirs.encode(TEXTS, prompt_name="query"))
    assert close(model.embed(TEXTS), theirs.encode(TEXTS))


@pytest.mark.parametrize(
    ("file", "content", "why"),
    [
        (
            "modules.json",
            [{"type": "a.Transformer", "path": ""}, {"type": "b.Dense", "path": "2_Dense"}],
            "asks for Dense",
        ),
        ("modules.json", [{"type": "a.Transformer", "path": ""}], "asks for 0 poolings"),
        ("modules.json", [{"type": "b.Pooling", "path": "../x"}], "outside its directory"),
        ("modules.json", {"type": 3}, "cannot be read"),
        ("1_Pooling/config.json", {"pooling_mode": "weightedmean"}, "asks for weightedmean"),
        ("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}, "asks for cls, mean"),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": False}, "asks for no pooling"),
        ("config_sentence_transformers.json", {"prompts": {"query": 3}}, "prompts that are no texts"),
    ],
)
def test_what_is_not_implemented_is_refused_not_left_out(file, content, why, tmp_path):
    directory, _ = published(tmp_path, "mean", norm=True)
    (directory / file).write_text(json.dumps(content))
    with pytest.raises(DamagedFile, match=why):
        recipe_of(directory)


@pytest.mark.mechanism("H5")
@pytest.mark.parametrize(
    ("name", "take", "prompts"),
    [
        ("all-MiniLM-L6-v2", "mean", {}),
        ("e5-small-v2", "mean", PROMPTS),
        ("bge-large-en-v1.5", "first", {"query": BGE, "passage": ""}),
    ],
)
def test_models_that_were_trained_for_vectors_say_how(name, take, prompts):
    spec = find(name)
    head, words_ = spec.architecture.heads["embedding"], spec.tokenizer
    assert head == EmbeddingHead(take=take, normalise=True)
    assert {"query": words_.query, "passage": words_.passage} == {"query": "", "passage": "", **prompts}
    assert spec.objective.kind == "contrastive"
    model = made(tiny(next(name for name, known in models().items() if spec.name in known.sizes)), None)
    model.spec = spec
    assert recipe_for(model) == Recipe(head=head, prompts=prompts)


@pytest.mark.mechanism("H5", "A6")
@pytest.mark.parametrize("take", ["first", "last", "mean", "max"])
def test_the_head_gives_the_same_vector_alone_and_padded_on_either_side(take):
    model, row = made("bge", "embedding"), words(1, 5)
    model.heads["embedding"].spec = EmbeddingHead(take=take)
    alone, states = model(row).logits, model(row).last_hidden_state[0]
    right = {"first": states[0], "last": states[-1], "mean": states.mean(0), "max": states.amax(0)}[take]
    assert gap(alone[0], right / right.norm()) < 1e-12
    for mask in (torch.tensor([[0, 0, 1, 1, 1, 1, 1]]), torch.tensor([[1, 1, 1, 1, 1, 0, 0]])):
        ids = torch.zeros(1, 7, dtype=torch.long)
        ids[mask.bool()] = row[0]
        assert gap(model(ids, attention_mask=mask).logits, alone) < 1e-12
    with pytest.raises(UsageError, match="one vector has no loss"):
        model(row, labels=torch.zeros(1, dtype=torch.long))


def test_two_stacks_have_no_one_state_for_a_text():
    spec = tiny("t5").set({"architecture.heads.embedding": EmbeddingHead(take="mean")})
    assert [problem.rule for problem in check(spec)] == ["one-state"]
