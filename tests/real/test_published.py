"""Weights that people use give what the libraries give that people know them from, to 1e-5, through the whole path."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

import variorum
from tests.parity import oracle
from tests.tools.command import here as run
from tests.tools.command import refused
from tests.tools.weights import need
from variorum.checkpoint.load import Origin
from variorum.checkpoint.weights import plan
from variorum.inference.encode import tensors
from variorum.inference.vectors import embed
from variorum.model import Model
from variorum.text.corpora import austen
from variorum.text.readers import paragraphs

pytestmark = pytest.mark.real_weights
GATE = 1e-5
REACTIONS = [
    "C C ( = O ) O . O C C >> C C ( = O ) O C C",
    "c 1 c c c c c 1 Br . O B ( O ) c 1 c c c c c 1",
    "N",
]


def sentences(count: int) -> list[str]:
    """Real sentences of all lengths, evenly from Persuasion."""
    found = [one for block in paragraphs(austen()["Persuasion"]) for one in re.split(r"(?<=[.!?])\s+", block) if one]
    return found[:: len(found) // count][:count]


def accounted(model: Model, directory: Path) -> dict[str, str]:
    """Every published name that was not used, with the reason; no name may be without one."""
    origin: Origin = model.origin
    with safe_open(directory / "model.safetensors", framework="pt") as file:
        published = set(file.keys())
    used = {
        name
        for step in plan(origin.dialect, model.spec.architecture, model.head_names, origin.prefix)
        for name in step.disk
    }
    spelt = {origin.older.get(name, name) for name in used}
    left = published - spelt - set(origin.duplicates)
    assert left == set(origin.unused)
    assert origin.fresh == ()
    return origin.unused


@pytest.mark.mechanism("H5")
def test_sentence_vectors_are_those_of_sentence_transformers() -> None:
    directory = need("minilm")
    from sentence_transformers import SentenceTransformer

    texts = sentences(200)
    assert len(texts) == 200 and len({len(text) for text in texts}) > 50
    theirs = SentenceTransformer(str(directory), device="cpu").encode(texts, batch_size=32)
    ours, cut = embed(variorum.load(directory), texts)
    assert cut == 0
    assert float(np.abs(ours.numpy() - theirs).max()) < GATE


def test_a_long_text_is_cut_where_sentence_transformers_cuts_it() -> None:
    directory = need("minilm")
    from sentence_transformers import SentenceTransformer

    text = " ".join(paragraphs(austen()["Emma"])[2:8])
    theirs = SentenceTransformer(str(directory), device="cpu").encode([text])
    ours, cut = embed(variorum.load(directory), [text])
    assert cut == 1
    assert float(np.abs(ours.numpy() - theirs).max()) < GATE


@pytest.mark.parametrize(
    ("name", "kind", "unused"),
    [
        ("bert-tiny", "BertForMaskedLM", set()),
        ("albert", "AlbertForMaskedLM", {"the pooler is not read"}),
    ],
)
def test_masked_language_models_load_whole_and_score_as_published(name: str, kind: str, unused: set[str]) -> None:
    directory = need(name)
    model = variorum.load(directory)
    assert set(accounted(model, directory).values()) == unused
    texts = REACTIONS if name == "albert" else sentences(24)
    given = tensors(model, model.tokenizer.pad(model.tokenizer.encode_batch(texts)))
    real = given["attention_mask"].bool()
    # float64 shows that both compute the same; float32 is what people run, where rounding is in proportion to the size.
    with oracle.exact():
        exact = scores(load_published(directory, kind, torch.float64), given)[real]
    wide = scores(variorum.load(directory, dtype="float64", tokenizer=False), given)[real]
    assert float((wide - exact).abs().max()) < 1e-9
    plain = scores(load_published(directory, kind, torch.float32), given)[real]
    ours = scores(model, given)[real]
    assert float((ours - plain).abs().max() / plain.abs().max()) < GATE
    assert float((ours - exact).abs().max()) <= 2 * float((plain - exact).abs().max()) + GATE


def scores(model: nn.Module, given: dict[str, Tensor]) -> Tensor:
    """Logits [B, T, V]."""
    with torch.no_grad():
        logits: Tensor = model(**given).logits
    return logits


def load_published(directory: Path, kind: str, dtype: torch.dtype) -> nn.Module:
    """The published class as its library loads it; unread poolers are its affair."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with oracle.exact(watch=False) if dtype == torch.float64 else contextlib.nullcontext():
        model = getattr(transformers, kind).from_pretrained(directory, dtype=dtype, attn_implementation="eager")
    return model.eval()  # type: ignore[no-any-return]


def test_what_the_sentence_model_leaves_unread_has_its_reason() -> None:
    directory = need("minilm")
    assert accounted(variorum.load(directory), directory) == {"embeddings.position_ids": "a constant buffer"}


def test_fill_mask_answers_from_the_command_line() -> None:
    directory = need("bert-tiny")
    done = run("fill-mask", str(directory), "Paris is the [MASK] of France.", "--top-k", "3", "--format", "json")
    rows = json.loads(done.stdout)
    assert len(rows) == 3
    assert [row["probability"] for row in rows] == sorted((row["probability"] for row in rows), reverse=True)
    assert rows[0]["text"] == f"Paris is the {rows[0]['token']} of France."
    import transformers

    reference = transformers.pipeline("fill-mask", model=str(directory), device="cpu", top_k=3)
    theirs = reference("Paris is the [MASK] of France.")
    assert [row["id"] for row in rows] == [row["token"] for row in theirs]
    assert [row["probability"] for row in rows] == pytest.approx([row["score"] for row in theirs], abs=GATE)


def test_embed_writes_a_row_for_each_line_of_a_file(tmp_path: Path) -> None:
    directory = need("minilm")
    texts = sentences(40)
    source, out = tmp_path / "texts.txt", tmp_path / "vectors.npy"
    source.write_text("\n".join(texts) + "\n")
    done = run("embed", str(directory), "--file", str(source), "--out", str(out), "--format", "json")
    assert json.loads(done.stdout) == {"file": str(out), "texts": 40, "width": 384, "cut": 0}
    vectors = np.load(out)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - variorum.load(directory).embed(texts).numpy()).max() < GATE
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < GATE


def test_texts_of_one_meaning_are_closer_than_others() -> None:
    model = variorum.load(need("minilm"))
    a, b, c = model.embed(["She was glad to see him.", "Seeing him made her happy.", "The carriage lost a wheel."])
    assert float(a @ b) > 0.6 > 0.3 > float(a @ c)


def test_a_model_without_a_masked_head_says_so() -> None:
    assert "no masked-language-model head" in refused("fill-mask", str(need("minilm")), "a [MASK]", code=2)


def test_a_text_longer_than_the_model_takes_is_refused_with_both_lengths() -> None:
    line = refused("fill-mask", str(need("bert-tiny")), "word " * 600 + "[MASK]", code=2)
    assert "text of 603 tokens is longer than the 512 this model takes" in line


def test_attention_of_a_real_model_finds_the_words() -> None:
    text = "The Law will never be perfect, but its application should be just."
    words = ("--text", text, "--from", "its", "--to", "Law", "--format", "json")
    said = json.loads(run("attention", str(need("minilm")), *words).stdout)
    assert said["maps"][0]["queries"]["tokens"][1:3] == ["the", "law"]
    assert len(said["ranking"]) == 6 * 12
