"""The published classes read encoder-decoders made here; constants of a file are neither lost nor invented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import variorum
from tests.parity import oracle
from tests.parity.case import materialise
from tests.parity.tiny import named
from tests.spec.shrunk import ALL
from tests.tiny_specs import words
from variorum.errors import DamagedFile
from variorum.family.transformer import both

FILE = "model.safetensors"
LM, JUDGE, SPANS = "seq2seq_lm", "sequence_classification", "question_answering"
FRESH = [
    ("t5", LM, "T5ForConditionalGeneration"), ("t5", JUDGE, "T5ForSequenceClassification"),
    ("t5-v1_1", LM, "T5ForConditionalGeneration"), ("flan-t5", SPANS, "T5ForQuestionAnswering"),
    ("byt5", LM, "T5ForConditionalGeneration"), ("mt5", LM, "MT5ForConditionalGeneration"),
    ("mt5", JUDGE, "MT5ForSequenceClassification"), ("bart", LM, "BartForConditionalGeneration"),
    ("bart", SPANS, "BartForQuestionAnswering"), ("mbart", LM, "MBartForConditionalGeneration"),
    ("mbart", JUDGE, "MBartForSequenceClassification"), ("pegasus", LM, "PegasusForConditionalGeneration"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "head", "kind"), FRESH, ids=lambda value: str(value))
def test_a_fresh_model_is_read_by_the_published_class(name: str, head: str, kind: str, tmp_path: Path) -> None:
    spec = ALL[name].set(dict.fromkeys(both("input.vocab"), 384)) if name == "byt5" else ALL[name]
    model = variorum.build(spec, head=head)
    model.save(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "config.json").read_text())["architectures"] == [kind]
    theirs = oracle.load32(tmp_path / "m", kind)
    source, target = words(2, 9), words(2, 6, seed=1)
    if head == "sequence_classification":
        source[:, 7] = theirs.config.eos_token_id
        target = source.roll(1, 1)
    with torch.no_grad():
        ours, right = (one(source, decoder_input_ids=target) for one in (model, theirs))
    for field in ("logits", "start_logits", "end_logits"):
        if getattr(right, field, None) is not None:
            assert torch.allclose(getattr(ours, field), getattr(right, field), atol=1e-5)
    again = variorum.load(tmp_path / "m")
    assert (again.spec.architecture, again.head_names) == (model.spec.architecture, (head,))
    assert dict(again.named_parameters()).keys() == dict(model.named_parameters()).keys()


def test_an_encoder_alone_says_so(tmp_path: Path) -> None:
    for name, kind in (("t5", "T5EncoderModel"), ("mt5", "MT5EncoderModel")):
        spec = ALL[name].set({"architecture.decoder": None, "architecture.heads": {}})
        model = variorum.build(spec)
        model.save(tmp_path / name)
        with torch.no_grad():
            right = oracle.load32(tmp_path / name, kind)(words(2, 9)).last_hidden_state
            assert torch.allclose(model(words(2, 9)).last_hidden_state, right, atol=1e-5)
        assert variorum.load(tmp_path / name).spec.architecture.decoder is None


def rewritten(directory: Path, **tensors: Tensor | None) -> None:
    """The file with other tensors, or without some."""
    held = load_file(directory / FILE)
    for name, value in tensors.items():
        if value is None:
            del held[name.replace("__", ".")]
        else:
            held[name.replace("__", ".")] = value
    save_file(held, directory / FILE, metadata={"format": "pt"})


def test_a_constant_that_a_file_leaves_out_is_zero_and_stays_out(tmp_path: Path) -> None:
    root = materialise(named("bart/seq2seq_lm"), tmp_path / "published")
    held = load_file(root / FILE)["final_logits_bias"]
    full = variorum.load(root)
    assert torch.equal(full.heads["seq2seq_lm"].offset, held[0]) and held.abs().max() > 0.1
    assert "heads.seq2seq_lm.offset" not in dict(full.named_parameters())
    rewritten(root, final_logits_bias=None)
    bare = variorum.load(root)
    with torch.no_grad():
        given = {"input_ids": words(1, 5), "decoder_input_ids": words(1, 4)}
        apart = full(**given).logits - bare(**given).logits
    assert torch.allclose(apart, held[0].expand_as(apart), atol=1e-5)
    bare.save(tmp_path / "again")
    assert load_file(tmp_path / "again" / FILE).keys() == load_file(root / FILE).keys()


@pytest.mark.mechanism("P2")
def test_stored_sinusoids_are_checked_and_kept_and_need_not_be_there(tmp_path: Path) -> None:
    root = materialise(named("pegasus/seq2seq_lm"), tmp_path / "published")
    name = "model.encoder.embed_positions.weight"
    table = load_file(root / FILE)[name]
    assert float(table[3, 0]) == pytest.approx(torch.tensor(3.0).sin())
    variorum.load(root).save(tmp_path / "again")
    assert torch.equal(load_file(tmp_path / "again" / FILE)[name], table)
    rewritten(root, model__encoder__embed_positions__weight=table.half().float())
    variorum.load(root)
    rewritten(root, model__encoder__embed_positions__weight=table.roll(1, 0))
    with pytest.raises(DamagedFile, match=f"{name} differs from the sinusoids") as error:
        variorum.load(root)
    assert error.value.exit_code == 7
    rewritten(root, model__encoder__embed_positions__weight=None)
    variorum.load(root).save(tmp_path / "bare")
    assert name not in load_file(tmp_path / "bare" / FILE)


def test_a_learned_table_is_no_constant(tmp_path: Path) -> None:
    root = materialise(named("bart/seq2seq_lm"), tmp_path / "published")
    rewritten(root, model__encoder__embed_positions__weight=None)
    with pytest.raises(DamagedFile, match=r"model\.encoder\.embed_positions\.weight"):
        variorum.load(root)
