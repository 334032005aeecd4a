"""Adapters go to PEFT and come back: the same logits on transformers' model, whatever the layout on disk."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.parity.case import Case, materialise
from tests.parity.tiny import named
from variorum.checkpoint import load, manifest, save
from variorum.checkpoint.adapters import CONFIG, WEIGHTS, load_adapter, save_adapter
from variorum.cli import main
from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.face import load as open_model
from variorum.model import Model
from variorum.parts import lora
from variorum.tasks.adapt import Lora

pytestmark = pytest.mark.mechanism("H6")

# Fused and split, transposed, shared, prefixed, encoder-decoder, latent: every way in which a linear lies on disk.
PUBLISHED = (
    "bert/sequence_classification", "albert/token_classification", "roberta/sequence_classification",
    "deberta-v2/sequence_classification", "gpt2/causal_lm", "gpt2/sequence_classification", "gpt-neox/causal_lm",
    "falcon-grouped/causal_lm", "llama/causal_lm", "t5/seq2seq_lm", "bart/seq2seq_lm", "modernbert/masked_lm",
    "bert/hidden",
)  # fmt: skip


def ids(rows: int = 2) -> torch.Tensor:
    return torch.randint(5, 90, (rows, 9), generator=torch.Generator().manual_seed(1))


def reads(case: Case) -> dict[str, torch.Tensor]:
    return {"input_ids": ids()} | ({"decoder_input_ids": ids()[:, :4]} if case.head == "seq2seq_lm" else {})


def said(model: Any, case: Case) -> torch.Tensor:
    with torch.no_grad():
        out = model(**reads(case))
        return out.last_hidden_state if case.head is None else out.logits


def base(name: str, folder: Path) -> tuple[Case, Path]:
    case = named(name)
    return case, materialise(case, folder / "base")


def adapted(case: Case, directory: Path, how: Lora) -> Model:
    """The model with adapters, and a head, that are no longer what they began as."""
    model = load(directory, head=case.head, tokenizer=False)
    how.prepare(model)
    moved = torch.Generator().manual_seed(2)
    for parameter in (p for p in model.parameters() if p.requires_grad):
        parameter.data += 0.05 * torch.randn(parameter.shape, generator=moved)
    return model.eval()


def theirs(case: Case, directory: Path) -> Any:
    return getattr(transformers, case.oracle).from_pretrained(directory).eval()


def close(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return float((found - wanted).abs().max()) <= 1e-5 * float(wanted.std())


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_we_save_peft_loads_on_the_published_model_with_the_same_logits(name: str, tmp_path: Path) -> None:
    case, directory = base(name, tmp_path)
    model = adapted(case, directory, Lora(rank=3, targets=("all",)))
    save_adapter(model, tmp_path / "adapter")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = peft.PeftModel.from_pretrained(theirs(case, directory), tmp_path / "adapter")
    ours = said(model, case)
    assert not close(said(load(directory, head=case.head, tokenizer=False), case), ours)
    assert close(said(peer.eval(), case), ours)
    again = load(directory, head=case.head, tokenizer=False)
    load_adapter(again, tmp_path / "adapter")
    assert torch.equal(said(again, case), ours)
    assert {name: one.a.shape for name, one in lora.adapters(again).items()} == {
        name: one.a.shape for name, one in lora.adapters(model).items()
    }, "side by side in one matrix, each comes back with its own ranks"


@pytest.mark.parametrize(
    ("name", "targets", "more"),
    [
        ("bert/sequence_classification", ["query", "dense"], {"use_rslora": True}),
        ("gpt2/causal_lm", ["c_attn"], {"fan_in_fan_out": True, "rank_pattern": {"h.1.attn.c_attn": 2}}),
        ("llama/causal_lm", ["q_proj", "down_proj"], {"alpha_pattern": {"layers.0.mlp.down_proj": 3}}),
    ],
)
def test_what_peft_made_is_read_and_goes_back_unchanged(
    name: str, targets: list[str], more: dict[str, Any], tmp_path: Path
) -> None:
    case, directory = base(name, tmp_path)
    kind = {"task_type": "SEQ_CLS"} if case.head == "sequence_classification" else {}
    how = peft.LoraConfig(r=4, lora_alpha=6, target_modules=targets, init_lora_weights=False, **more, **kind)
    peer = peft.get_peft_model(theirs(case, directory), how).eval()
    peer.save_pretrained(tmp_path / "theirs")
    model = load(directory, head=case.head, tokenizer=False)
    load_adapter(model, tmp_path / "theirs")
    assert close(said(model, case), said(peer, case))
    save_adapter(model, tmp_path / "ours")
    mine, other = ((tmp_path / place / WEIGHTS) for place in ("ours", "theirs"))
    assert {n: t.tolist() for n, t in load_file(mine).items()} == {n: t.tolist() for n, t in load_file(other).items()}


def test_merged_adapters_are_part_of_weights_that_save_and_run_like_any(tmp_path: Path) -> None:
    case, directory = base("bert/sequence_classification", tmp_path)
    model = adapted(case, directory, Lora(rank=3))
    ours = said(model, case)
    with pytest.raises(UsageError, match="has adapters beside its weights"):
        save(model, tmp_path / "merged")
    save_adapter(model, tmp_path / "adapter")
    lora.merge(model)
    save(model, tmp_path / "merged")
    assert close(said(theirs(case, tmp_path / "merged"), case), ours)
    loaded = open_model(directory, adapter=tmp_path / "adapter", tokenizer=False)
    assert close(said(loaded, case), ours) and not lora.adapters(loaded)
    save_adapter(model, tmp_path / "later")
    assert (tmp_path / "later" / WEIGHTS).read_bytes() == (tmp_path / "adapter" / WEIGHTS).read_bytes()


def test_one_command_writes_a_model_with_its_adapters_merged(tmp_path: Path) -> None:
    case, directory = base("llama/causal_lm", tmp_path)
    model = adapted(case, directory, Lora(rank=3, targets=("all",)))
    save_adapter(model, tmp_path / "adapter")
    words = ["convert", str(directory), str(tmp_path / "out"), "--merge-adapter", str(tmp_path / "adapter")]
    assert main(words) == 0
    assert close(said(theirs(case, tmp_path / "out"), case), said(model, case))
    assert main([*words[:-1], str(directory)]) == 3


def test_a_head_that_only_the_adapter_holds_comes_with_it_for_its_own_number_of_labels(tmp_path: Path) -> None:
    case, directory = base("bert/sequence_classification", tmp_path)
    model = adapted(case, directory, Lora(rank=2))
    save_adapter(model, tmp_path / "adapter")
    bare = load(directory, head=None, tokenizer=False)
    save(bare, tmp_path / "bare")
    config = json.loads((tmp_path / "bare" / "config.json").read_text())
    assert len(config.pop("id2label")) == 3
    config.pop("label2id")
    (tmp_path / "bare" / "config.json").write_text(json.dumps(config))
    (tmp_path / "bare" / manifest.NAME).unlink()
    loaded = open_model(tmp_path / "bare", adapter=tmp_path / "adapter", tokenizer=False)
    assert close(said(loaded, case), said(model, case))
    assert not loaded.origin.fresh


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"peft_type": "IA3"}, "of the kind 'IA3'"),
        ({"use_dora": True}, "use_dora"),
        ({"bias": "all"}, "biases"),
    ],
)
def test_adapters_of_a_kind_that_is_not_read_are_refused(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    case, directory = base("bert/hidden", tmp_path)
    save_adapter(adapted(case, directory, Lora(rank=2)), tmp_path / "adapter")
    path = tmp_path / "adapter" / CONFIG
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedFile, match=said):
        load_adapter(load(directory, head=None, tokenizer=False), tmp_path / "adapter")


def test_adapters_of_another_model_are_refused_by_name_and_by_shape(tmp_path: Path) -> None:
    case, directory = base("bert/hidden", tmp_path)
    save_adapter(adapted(case, directory, Lora(rank=2)), tmp_path / "adapter")
    other = load(materialise(named("gpt2/causal_lm"), tmp_path / "gpt2"), tokenizer=False)
    with pytest.raises(DamagedFile, match="is no linear of"):
        load_adapter(other, tmp_path / "adapter")
    narrow = {name: tensor[..., :-1].contiguous() for name, tensor in load_file(tmp_path / "adapter" / WEIGHTS).items()}
    save_file(narrow, tmp_path / "adapter" / WEIGHTS)
    with pytest.raises(DamagedFile, match="does not fit"):
        load_adapter(load(directory, head=None, tokenizer=False), tmp_path / "adapter")
    with pytest.raises(NotFound, match="adapter_config"):
        load_adapter(load(directory, head=None, tokenizer=False), directory)


def test_where_the_published_model_has_no_linear_saving_adapters_says_so(tmp_path: Path) -> None:
    case, directory = base("xlnet/hidden", tmp_path)
    with pytest.raises(UsageError, match="no linear in the published layout"):
        save_adapter(adapted(case, directory, Lora(rank=2)), tmp_path / "adapter")
    with pytest.raises(UsageError, match="has no adapters"):
        save_adapter(load(directory, head=None, tokenizer=False), tmp_path / "adapter")
