"""The enhanced mask decoder: words learn where they stand only where they are chosen, by the last layer run again.

The published library leaves it out, so the reference is the decoder of the authors' code, written here over the
library's own layers, and over plain matrices for a model that is no DeBERTa.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

import variorum
from tests import gates
from tests.parity import oracle
from tests.parity.models.deberta import DEBERTA, DEBERTA_V2
from tests.tiny_specs import gap, made, tiny, words
from variorum.errors import UsageError
from variorum.spec.heads import EnhancedMaskDecoder, SequenceHead, TokenHead
from variorum.spec.rules import check

CONFIGS = {
    "Deberta": {**DEBERTA, "max_relative_positions": 12},
    "DebertaV2": {**DEBERTA_V2, "conv_kernel_size": 3, "conv_act": "gelu"},
    "DebertaV2 without convolution": DEBERTA_V2,
}
MASKS = (torch.ones(2, 19, dtype=torch.long), torch.tensor([[1] * 19, [1] * 12 + [0] * 7]))
TABLE = "deberta.embeddings.position_embeddings.weight"
JUDGE = {"LayerNorm.weight": (48,), "LayerNorm.bias": (48,), "dense.weight": (48, 48), "dense.bias": (48,),
         "classifier.weight": (1, 48), "classifier.bias": (1,)}  # fmt: skip


def drawn(*shape: int, seed: int) -> Tensor:
    return 0.5 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def released(kind: str, directory: Path) -> tuple[Path, Any]:
    """A directory as the authors publish one, and the library's classes with the same weights in float64."""
    name = kind.split()[0]
    source = getattr(transformers, f"{name}ForMaskedLM")
    model = source(source.config_class(vocab_size=97, legacy=False, **CONFIGS[kind]))
    oracle.randomise(model, 0)
    oracle.save(model, directory)
    config = json.loads((directory / "config.json").read_text())
    theirs = oracle.load64(directory, f"{name}ForMaskedLM")
    for key in ("architectures", "legacy", "dtype", "transformers_version"):
        config.pop(key, None)
    (directory / "config.json").write_text(json.dumps(config | {"pos_att_type": "c2p|p2c"}))
    tensors = load_file(directory / "model.safetensors") | {TABLE: drawn(40, 48, seed=1)}
    tensors |= {f"mask_predictions.{n}": drawn(*shape, seed=i) for i, (n, shape) in enumerate(JUDGE.items())}
    if "without" not in kind:
        tensors = {name: value for name, value in tensors.items() if not name.startswith("mask_")}
    save_file(tensors, directory / "model.safetensors")
    return directory, theirs


def again(encoder: Any, below: Tensor, asked: Tensor, mask: Tensor) -> Tensor:
    """The last layer with other queries than its input; what v1 has for that raises, so its parts are called."""
    layer, given = encoder.layer[-1], {"relative_pos": encoder.get_rel_pos(below)}
    given |= {"rel_embeddings": encoder.get_rel_embedding()}
    within = layer.attention.self
    if not hasattr(within, "in_proj"):
        return layer(below, mask, query_states=asked, **given)[0]
    project = within.in_proj.forward

    def apart(x: Tensor) -> Tensor:
        q, kv = (project(one).unflatten(-1, (within.num_attention_heads, 3, -1)) for one in (asked, x))
        return torch.cat((q[..., :1, :], kv[..., 1:, :]), -2).flatten(-3)

    within.in_proj.forward = apart
    try:
        mixed = layer.attention.output(within(below, mask, **given)[0], asked)
    finally:
        within.in_proj.forward = project
    return layer.output(layer.intermediate(mixed), mixed)


def states(theirs: Any, table: Tensor, ids: Tensor, mask: Tensor) -> tuple[list[Tensor], Tensor]:
    """All states of the library's encoder, and those that the authors' decoder makes of them."""
    encoder, size = theirs.deberta.encoder, (len(ids), -1, -1)
    layers = theirs.deberta(ids, attention_mask=mask, output_hidden_states=True).hidden_states
    below = layers[-2]
    asked = below + table[: ids.shape[1]].expand(*size)
    for _ in range(2):
        asked = again(encoder, below, asked, encoder.get_attention_mask(mask))
    return list(layers), asked


@pytest.mark.mechanism("O8")
@pytest.mark.parametrize("kind", CONFIGS)
def test_it_equals_the_authors_decoder_over_the_librarys_layers(kind, tmp_path):
    directory, theirs = released(kind, tmp_path)
    model = variorum.load(directory, head="masked_lm", dtype="float64", backend="eager")
    assert isinstance(model.spec.architecture.heads["masked_lm"], EnhancedMaskDecoder)
    ids, table = words(2, 19), load_file(directory / "model.safetensors")[TABLE].double()
    for mask in MASKS:
        with oracle.exact():
            layers, asked = states(theirs, table, ids, mask)
            right = theirs.lm_predictions(asked, theirs.deberta.embeddings.word_embeddings)
            plain = theirs.lm_predictions(layers[-1], theirs.deberta.embeddings.word_embeddings)
        real = mask.bool()
        ours = model(ids, attention_mask=mask).logits
        assert gap(ours[real], right[real]) <= gates.SCORES * oracle.spread(right)
        assert gap(ours[real], plain[real]) > 1e-2 * oracle.spread(right)
        fused = variorum.load(directory, head="masked_lm", dtype="float64")(ids, attention_mask=mask).logits
        assert gap(fused[real], ours[real]) <= gates.BACKENDS * oracle.spread(right)


@pytest.mark.mechanism("O8", "P9")
@pytest.mark.parametrize("kind", CONFIGS)
def test_what_the_authors_publish_is_read_and_written_key_by_key(kind, tmp_path):
    directory, _ = released(kind, tmp_path / "published")
    model = variorum.load(directory, head="masked_lm")
    model.save(tmp_path / "saved")
    before, after = (load_file(path / "model.safetensors") for path in (directory, tmp_path / "saved"))
    assert after.keys() == {name for name in before if not name.startswith("mask_")}
    assert all(torch.equal(before[name], value) for name, value in after.items())
    again = variorum.load(tmp_path / "saved")
    assert again.head_names == ("masked_lm",) and again.spec.architecture == model.spec.architecture
    plain = variorum.load(directory, head="token_classification", fresh_head=True)
    assert all("pretrain" in why or "belongs to head" in why for why in plain.origin.unused.values())


def test_v3_judges_each_token_beside_the_first(tmp_path):
    directory, theirs = released("DebertaV2 without convolution", tmp_path)
    model = variorum.load(directory, head="replaced_token", dtype="float64", backend="eager")
    w = {name: value.double() for name, value in load_file(directory / "model.safetensors").items()}
    ids, mask = words(2, 19), MASKS[1]
    with oracle.exact():
        x = theirs.deberta(ids, attention_mask=mask).last_hidden_state
        p = "mask_predictions."
        x = F.layer_norm(x + x[:, :1], (48,), w[f"{p}LayerNorm.weight"], w[f"{p}LayerNorm.bias"], 1e-7)
        x = F.gelu(x @ w[f"{p}dense.weight"].T + w[f"{p}dense.bias"])
        right = (x @ w[f"{p}classifier.weight"].T + w[f"{p}classifier.bias"])[..., 0]
    ours = model(ids, attention_mask=mask).logits
    assert gap(ours[mask.bool()], right[mask.bool()]) <= gates.SCORES * oracle.spread(right)
    left = mask.flip(1)
    turned = torch.stack([ids[0], ids[1].roll(7)])
    assert gap(model(turned, attention_mask=left).logits[left.bool()], ours[mask.bool()]) < 1e-12


def enhanced_bert(steps: int = 2, rows: int = 30) -> Any:
    """BERT whose input knows no positions, with the decoder that does."""
    plain = tiny("bert").architecture.heads["masked_lm"]
    head = EnhancedMaskDecoder(tie=plain.tie, bias=True, transform=plain.transform, rows=rows, steps=steps)
    return tiny("bert", {"architecture.encoder.input.positions": None, "architecture.heads.masked_lm": head})


@pytest.mark.mechanism("O8")
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_any_encoder_may_have_it(steps):
    spec = enhanced_bert(steps)
    assert check(spec) == []
    model, ids = made(spec, "masked_lm"), words(2, 9)
    w = {name: value.detach() for name, value in model.named_tensors()}
    below = model(ids, output_hidden_states=True).hidden_states[-2].detach()
    asked, at = (
        below + w["heads.masked_lm.positions.weight"][:9],
        f"encoder.layers.{spec.architecture.encoder.depth - 1}",
    )

    def line(name: str, x: Tensor) -> Tensor:
        return x @ w[f"{at}.{name}.weight"].T + w[f"{at}.{name}.bias"]

    def normed(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], w[f"{at}.{name}.weight"], w[f"{at}.{name}.bias"], 1e-12)

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (4, 8)).transpose(1, 2)

    for _ in range(steps):
        q, k, v = (split(line(f"attention.{n}", x)) for n, x in (("query", asked), ("key", below), ("value", below)))
        mixed = ((q @ k.transpose(-1, -2) / 8**0.5).softmax(-1) @ v).transpose(1, 2).flatten(-2)
        x = normed("attention_norms.join", asked + line("attention.out", mixed))
        asked = normed("feedforward_norms.join", x + line("feedforward.down", F.gelu(line("feedforward.up", x))))
    head = model.heads["masked_lm"]
    right = head.project(head.transform(asked)).detach()
    assert gap(model(ids).logits, right) < 1e-12
    assert gap(model(ids, logits_to_keep=2).logits, right[:, -2:]) < 1e-12


def test_without_it_a_word_does_not_know_where_it_stands():
    model, ids = made(enhanced_bert(), "masked_lm"), words(1, 9)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1))
    states = [model(x).last_hidden_state for x in (ids, ids[:, order])]
    assert gap(states[0][:, order], states[1]) < 1e-12
    scores = [model(x).logits for x in (ids, ids[:, order])]
    assert gap(scores[0][:, order], scores[1]) > 1e-3


def test_padding_moves_no_position_and_more_words_than_rows_are_refused():
    model, row = made(enhanced_bert(rows=7), "masked_lm"), words(1, 5)
    alone = model(row).logits
    for mask in (torch.tensor([[0, 0, 1, 1, 1, 1, 1]]), torch.tensor([[1, 1, 1, 1, 1, 0, 0]])):
        ids = torch.zeros(1, 7, dtype=torch.long)
        ids[mask.bool()] = row[0]
        assert gap(model(ids, attention_mask=mask).logits[mask.bool()], alone[0]) < 1e-12
    with pytest.raises(UsageError, match="text of 8 tokens is longer than the 7"):
        model(words(1, 8))


@pytest.mark.parametrize(
    ("name", "what"),
    [("bert", "the input tells the positions already"), ("gpt2", "is no encoder"), ("xlnet", "a second stream")],
)
def test_it_is_refused_where_it_would_not_be_what_it_was(name, what):
    spec = tiny(name).set({"architecture.heads.masked_lm": EnhancedMaskDecoder(rows=30)})
    assert any(problem.rule == "late-positions" and what in problem.what for problem in check(spec))


def test_sequence_and_token_heads_are_none_of_its_business():
    kinds = {name: type(head) for name, head in tiny("deberta").architecture.heads.items()}
    assert kinds["masked_lm"] is EnhancedMaskDecoder
    assert {kinds["sequence_classification"], kinds["token_classification"]} == {SequenceHead, TokenHead}
