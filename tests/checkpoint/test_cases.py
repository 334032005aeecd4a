"""Known failures of published software that a loaded model does not repeat."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import variorum
from tests.cli import models
from variorum.builder import build
from variorum.checkpoint import manifest, save
from variorum.checkpoint.config import read_config
from variorum.errors import DamagedFile, UsageError
from variorum.face import Model
from variorum.family import find

SINGLE = "model.safetensors"


def logits_of(model: Model, ids: list[list[int]], mask: list[list[int]] | None = None) -> Tensor:
    given = None if mask is None else torch.tensor(mask)
    with torch.no_grad():
        out = model(torch.tensor(ids), attention_mask=given).logits
    assert out is not None
    return out


def rewritten(directory: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    """The directory as somebody else would publish it, with other tensors."""
    tensors = change(load_file(directory / SINGLE))
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, directory / SINGLE, metadata={"format": "pt"})
    (directory / manifest.NAME).unlink(missing_ok=True)


@pytest.mark.case("V001")
@pytest.mark.parametrize("pad", [0, 5, 11])
def test_left_padding_moves_no_position_of_a_decoder(pad: int) -> None:
    sizes = {**models.GPT2, "architecture.decoder.depth": 2, "architecture.decoder.input.vocab": 12}
    model = variorum.build(find("gpt2").set(sizes), head="causal_lm")
    models.shaken(model)
    alone = logits_of(model, [[7, 3, 9]])[0, -1]
    batch = logits_of(model, [[pad, pad, 7, 3, 9], [4, 8, 2, 6, 1]], [[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    assert float((batch[0, -1] - alone).abs().max()) < 1e-5
    assert int(batch[0, -1].argmax()) == int(alone.argmax())
    other = logits_of(model, [[4, 8, 2, 6, 1]])[0, -1]
    assert float((batch[1, -1] - other).abs().max()) < 1e-5


def roberta(pad: int) -> Model:
    """A tiny RoBERTa with a table of 514 positions."""
    config = {
        "model_type": "roberta", "pad_token_id": pad, "max_position_embeddings": 514, "hidden_size": 16,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 20,
        "type_vocab_size": 1,
    }  # fmt: skip
    return variorum.build(read_config(config)[0], head="masked_lm")


@pytest.mark.case("V002")
def test_roberta_counts_positions_from_its_padding_id() -> None:
    model, seen = roberta(1), []
    model.encoder.input.positions.register_forward_hook(lambda _module, args, _output: seen.append(args[0]))
    logits_of(model, [[0, 5, 6, 2, 1, 1]])
    assert [rows.flatten().tolist() for rows in seen] == [[2, 3, 4, 5, 1, 1]]


@pytest.mark.case("V002")
@pytest.mark.parametrize(("pad", "longest"), [(1, 512), (3, 510)])
def test_the_rows_before_the_first_position_are_no_room_for_text(pad: int, longest: int) -> None:
    model = roberta(pad)
    assert logits_of(model, [[7] * longest]).shape[1] == longest
    with pytest.raises(UsageError, match=f"text of {longest + 1} tokens is longer than the {longest} this model takes"):
        logits_of(model, [[7] * (longest + 1)])


@pytest.mark.case("V021")
def test_a_tied_head_is_one_tensor_again_after_saving_and_loading_elsewhere(tmp_path: Path) -> None:
    directory = models.gpt2(tmp_path / "gpt2")
    model = variorum.load(directory)
    with torch.no_grad():
        model.decoder.input.table.weight[3] += 0.5
    model.save(tmp_path / "changed")
    again = variorum.load(tmp_path / "changed")
    assert again.heads["causal_lm"].project.weight is again.decoder.input.table.weight
    assert sum(p.numel() for p in again.parameters()) == sum(p.numel() for p in model.parameters())
    ids = [[5, 6, 7, 3]]
    assert torch.equal(logits_of(again, ids), logits_of(model, ids))
    script = (
        "import sys, hashlib, torch, variorum; m = variorum.load(sys.argv[1]); m.requires_grad_(False);"
        f" print(hashlib.sha256(m(torch.tensor({ids})).logits.numpy().tobytes()).hexdigest())"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "changed")]
    elsewhere = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    assert elsewhere == hashlib.sha256(logits_of(model, ids).numpy().tobytes()).hexdigest()


@pytest.mark.case("V021")
def test_a_tied_head_that_is_stored_twice_must_be_the_same_twice(tmp_path: Path) -> None:
    directory = models.gpt2(tmp_path / "gpt2")
    before = logits_of(variorum.load(directory), [[5, 6, 7]])
    table = "transformer.wte.weight"
    rewritten(directory, lambda tensors: {**tensors, "lm_head.weight": tensors[table]})
    twice = variorum.load(directory)
    assert torch.equal(logits_of(twice, [[5, 6, 7]]), before)
    assert twice.origin.duplicates == {"lm_head.weight": "decoder.input.table.weight"}
    rewritten(directory, lambda tensors: {**tensors, "lm_head.weight": tensors[table] + 1})
    with pytest.raises(DamagedFile, match=r"lm_head.weight differs from decoder.input.table.weight"):
        variorum.load(directory)


def headless(place: Path) -> Path:
    """A BERT without any head, as published."""
    model = build(find("bert").set({**models.BERT, "architecture.encoder.input.vocab": 20}))
    save(model, place)
    return place


@pytest.mark.case("V022")
def test_a_wrong_prefix_is_not_a_model_at_random(tmp_path: Path) -> None:
    directory = headless(tmp_path / "bert")
    total = len(load_file(directory / SINGLE))
    rewritten(directory, lambda tensors: {f"enc.{name}": tensor for name, tensor in tensors.items()})
    for fresh in (False, True):
        with pytest.raises(DamagedFile, match="tensors are missing") as caught:
            variorum.load(directory, head="masked_lm", fresh_head=fresh)
        assert f"and {total} others are there" in str(caught.value)
        assert caught.value.exit_code == 7


@pytest.mark.case("V022")
def test_only_a_new_head_may_be_missing_and_it_is_named(tmp_path: Path) -> None:
    directory = headless(tmp_path / "bert")
    with pytest.raises(DamagedFile, match=r"fresh_head=True"):
        variorum.load(directory, head="masked_lm")
    model = variorum.load(directory, head="masked_lm", fresh_head=True)
    assert model.origin.fresh and all(name.startswith("heads.masked_lm.") for name in model.origin.fresh)
    source = load_file(directory / SINGLE)
    assert torch.equal(
        model.encoder.layers[1].attention.query.weight, source["encoder.layer.1.attention.self.query.weight"]
    )


@pytest.mark.case("V022")
def test_a_backbone_with_a_tensor_too_few_or_too_many_is_refused(tmp_path: Path) -> None:
    directory, name = headless(tmp_path / "bert"), "encoder.layer.1.output.dense.weight"
    whole = load_file(directory / SINGLE)
    rewritten(directory, lambda tensors: {key: value for key, value in tensors.items() if key != name})
    with pytest.raises(DamagedFile, match=f"1 of {len(whole)} tensors are missing, the first is {name}"):
        variorum.load(directory, fresh_head=True)
    rewritten(directory, lambda tensors: {**whole, "encoder.layer.1.output.stray.weight": torch.ones(1)})
    with pytest.raises(
        DamagedFile, match=r"1 tensors are not part of this model, the first is encoder\.layer\.1\.output\.str"
    ):
        variorum.load(directory)


@pytest.mark.case("V029")
def test_a_vocabulary_with_more_ids_than_rows_is_refused_when_loading(tmp_path: Path) -> None:
    ids = models.words().vocab_size
    short = {**models.BERT, "architecture.encoder.input.vocab": ids - 4}
    model = build(find("bert").set(short), head="masked_lm")
    model.tokenizer = models.words()
    save(model, tmp_path / "short")
    with pytest.raises(DamagedFile, match=f"the tokenizer has {ids} ids but the embedding has {ids - 4} rows"):
        variorum.load(tmp_path / "short")
    model = build(find("bert").set({**short, "architecture.encoder.input.vocab": ids + 271}), head="masked_lm")
    model.tokenizer = models.words()
    save(model, tmp_path / "spare")
    spare = variorum.load(tmp_path / "spare")
    with pytest.raises(UsageError, match=f"id {ids + 2} is beyond the vocabulary of {ids} tokens"):
        spare.tokenizer.decode([ids + 2])
    rows = spare.fill_mask("the [MASK]", top_k=ids + 271)
    assert {row.token for row in rows if row.id >= ids} == {"(spare row)"}


@pytest.mark.case("V029")
def test_writing_an_id_of_a_spare_row_does_not_crash(tmp_path: Path) -> None:
    tokenizer = models.pieces()
    spec = find("gpt2").set({**models.GPT2, "architecture.decoder.input.vocab": tokenizer.vocab_size + 8})
    model = variorum.build(spec, head="causal_lm")
    models.shaken(model)
    model.tokenizer = dataclasses.replace(tokenizer)
    with torch.no_grad():  # what follows is always the last row, which stands for no token
        model.decoder.final_norm.weight.zero_()
        model.decoder.final_norm.bias.copy_(model.decoder.input.table.weight[-1] * 9)
    assert model.generate("The Law", max_new_tokens=3) == ""
