"""What the rules allow can be put together in a file, and is a model then: counted, trained and used as any other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

import variorum as vr
from tests.cli import models
from tests.cli.verbs import answered
from variorum.builder import empty
from variorum.inference.generate import require_writer
from variorum.spec.rules import require

SMALL = """
[[change]]
path = "width"
value = 32
also = {{{0}}}
"""
ATTENTION = '"{0}.heads" = 4, "{0}.kv_heads" = 4, "{0}.head_dim" = 8'


def shrunk(*stacks: str, cross: bool = False, vocab: int = 100, more: str = "") -> str:
    """The change that makes a model small."""
    places = []
    for stack in stacks:
        places += [
            f'"{stack}.depth" = 3',
            f'"{stack}.input.vocab" = {vocab}',
            f'"{stack}.block.feedforward.width" = 40',
        ]
        places.append(ATTENTION.format(f"{stack}.block.attention"))
    if cross:
        places.append(ATTENTION.format("decoder.block.cross"))
    return SMALL.format(", ".join([*places, more] if more else places))


WORDS = models.words().vocab_size
MIXES = {
    "BERT with rotation": ("masked_lm", f"""
        base = "bert-base-uncased"
        {shrunk("encoder", vocab=WORDS)}
        [[change]]
        path = "encoder.positions"
        value = {{kind = "Rotary", theta = 10000}}
        also = {{"encoder.input.positions" = "none"}}"""),
    "T5 with grouped queries": ("seq2seq_lm", f"""
        base = "t5-small"
        {shrunk("encoder", "decoder", cross=True)}
        [[change]]
        path = "encoder.block.attention.kv_heads"
        value = 2
        also = {{"decoder.block.attention.kv_heads" = 2, "decoder.block.cross.kv_heads" = 1}}"""),
    "ModernBERT that finds replaced tokens": ("replaced_token", f"""
        base = "modernbert-base"
        {shrunk("encoder", more='"encoder.input.pad_id" = 0')}
        [[change]]
        path = "heads.replaced_token"
        value = {{kind = "TokenHead", labels = 1, transform = {{kind = "Transform", activation = "gelu"}}}}
        also = {{objective = {{kind = "replaced_token", masking = {{mask = 1, random = 0}}}}}}"""),
    "RoBERTa with linear biases": ("masked_lm", f"""
        base = "roberta-base"
        {shrunk("encoder", vocab=WORDS)}
        [[change]]
        path = "encoder.positions"
        value = "Alibi"
        also = {{"encoder.input.positions" = "none"}}"""),
    "GPT-2 with rotation, gates and sandwich norms": ("causal_lm", f"""
        base = "gpt2"
        {shrunk("decoder")}
        [[change]]
        path = "decoder.positions"
        value = "Rotary(fraction=0.5)"
        also = {{"decoder.input.positions" = "none"}}
        [[change]]
        path = "decoder.block.feedforward"
        value = "GatedMLP(width=48, activation=silu)"
        [[change]]
        path = "decoder.block.layout"
        value = "sandwich(RMSNorm(eps=1e-6))\""""),
    "BERT of experts, before whose layers stands the norm": ("masked_lm", f"""
        base = "bert"
        {shrunk("encoder", vocab=WORDS)}
        [[change]]
        path = "encoder.block.feedforward"
        value = "Experts(count=4, active=2, width=16, activation=gelu, router=SoftmaxRouter())"
        [[change]]
        path = "encoder.block.layout"
        value = "pre(LayerNorm(eps=1e-6))"
        also = {{"encoder.final_norm" = "LayerNorm(eps=1e-6)"}}"""),
    "T5 that rotates and looks back four tokens": ("seq2seq_lm", f"""
        base = "t5-small"
        {shrunk("encoder", "decoder", cross=True)}
        [[change]]
        path = "encoder.positions"
        value = "Rotary"
        also = {{"decoder.positions" = "Rotary"}}
        [[change]]
        path = "decoder.block.attention.window"
        value = 4"""),
    "LLaMA with learned positions and one latent": ("causal_lm", f"""
        base = "llama-7b"
        {shrunk("decoder")}
        [[change]]
        path = "decoder.block.attention"
        value = {{kind = "LatentAttention", heads = 4, query_rank = 12, kv_rank = 16, nope_dim = 8, rope_dim = 4, \
                  value_dim = 8, norm = "RMSNorm(eps=1e-6)"}}
        [[change]]
        path = "decoder.input.positions"
        value = "Learned(rows=64)\""""),
}  # fmt: skip


@pytest.fixture(params=MIXES)
def mix(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The head that a mix trains, and its file."""
    head, text = MIXES[request.param]
    path = tmp_path / "mix.toml"
    path.write_text("\n".join(line.strip() for line in text.splitlines()))
    return head, str(path)


def targets(head: str, logits: Tensor) -> Tensor:
    """Labels for what a model has scored: words, or yes and no."""
    made = torch.Generator().manual_seed(0)
    return torch.randint(2 if head == "replaced_token" else logits.shape[-1], (2, 7), generator=made)


def test_a_mix_is_built_and_counted(mix: tuple[str, str]) -> None:
    head, path = mix
    spec = vr.architecture(path)
    built = sum(parameter.numel() for parameter in empty(spec, [head]).parameters())
    assert vr.size(path, head=head).parameters == built


def test_a_mix_learns(mix: tuple[str, str]) -> None:
    head, path = mix
    model = vr.build(path, head=head)
    ids = torch.randint(5, 90, (2, 7), generator=torch.Generator().manual_seed(1))
    writes = {"decoder_input_ids": ids} if head == "seq2seq_lm" else {}
    labels = targets(head, model(ids, **writes).logits)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        loss = model(ids, labels=labels).loss
        optimiser.zero_grad()
        loss.backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[1] < losses[0] < 100


def test_a_mix_is_written_and_read_again(mix: tuple[str, str], tmp_path: Path) -> None:
    head, path = mix
    model = vr.build(path, head=head)
    if head == "masked_lm":
        model.tokenizer = models.words()
    model.save(tmp_path / "saved")
    again = vr.load(tmp_path / "saved")
    assert again.spec.architecture == model.spec.architecture
    assert (again.spec.name, again.head_names) == ("mix", (head,))
    ids = torch.tensor([[5, 6, 7, 8]])
    given = {"input_ids": ids} | ({"decoder_input_ids": ids} if head == "seq2seq_lm" else {})
    assert torch.equal(model(**given).logits, again(**given).logits)
    again.save(tmp_path / "twice")
    for name in ("model.safetensors", "config.json"):
        assert (tmp_path / "twice" / name).read_bytes() == (tmp_path / "saved" / name).read_bytes()


def test_the_directory_of_a_mix_is_a_model_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, text = MIXES["BERT with rotation"]
    file, place = tmp_path / "mix.toml", tmp_path / "saved"
    file.write_text("\n".join(line.strip() for line in text.splitlines()))
    model = vr.build(str(file), head=head)
    model.tokenizer = models.words()
    model.save(place)
    guesses = answered(capsys, "fill-mask", str(place), "The [MASK] will never be perfect")
    assert [guess["token"] for guess in guesses] == [
        guess.token for guess in model.fill_mask("The [MASK] will never be perfect")
    ]
    assert answered(capsys, "size", f"{place}/")["parameters"] == vr.size(str(file)).parameters
    config = json.loads((place / "config.json").read_text())
    assert (config["model_type"], config["name"]) == ("variorum", "mix")


def test_a_mix_does_what_its_head_is_for(mix: tuple[str, str]) -> None:
    head, path = mix
    model = vr.build(path, head=head)
    if head == "masked_lm":
        require(model.spec, "fill_mask")
        model.tokenizer = models.words()
        guesses = model.fill_mask("The [MASK] will never be perfect", top_k=3)
        assert len(guesses) == 3 and all(0 < guess.probability < 1 for guess in guesses)
        assert model.embed(["The Law", "is just"]).isfinite().all()
    elif head == "replaced_token":
        require(model.spec, "replaced_token")
        assert model(torch.tensor([[5, 6, 7]])).logits.shape == (1, 3)
    else:
        require(model.spec, "generate")
        require_writer(model.spec)
        rows = model.generate([[5, 6, 7], [8]], max_new_tokens=6)
        assert rows == [model.generate([row], max_new_tokens=6)[0] for row in ([5, 6, 7], [8])]
