"""The line from GPT-1 to LLaMA and what it says of itself: counts that are published, and what is left open."""

from __future__ import annotations

import pytest
import torch

import variorum
from tests.parity import oracle
from tests.parity.models.gpt import GPT1
from variorum.family import find, models
from variorum.spec.size import size

#: Brown et al. 2020, table 2.1: what it calls the parameters, the width, and the layers.
GPT3 = {
    "gpt3-small": (125e6, 768, 12), "gpt3-medium": (350e6, 1024, 24), "gpt3-large": (760e6, 1536, 24),
    "gpt3-xl": (1.3e9, 2048, 24), "gpt3-2.7b": (2.7e9, 2560, 32), "gpt3-6.7b": (6.7e9, 4096, 32),
    "gpt3-13b": (13e9, 5140, 40), "gpt3-175b": (175e9, 12_288, 96),
}  # fmt: skip


@pytest.mark.mechanism("C1")
@pytest.mark.parametrize("name", GPT3)
def test_every_gpt_3_has_the_count_that_its_width_and_depth_make(name):
    published, width, depth = GPT3[name]
    counted = size(find(name), context=1).parameters
    tables, norms = (50_257 + 2048) * width, 2 * width
    whole = depth * (12 * width**2 + 13 * width) + tables + norms
    # 40 heads of 128 are 20 channels short of 5140, in each of four matrices and three biases.
    short = depth * (4 * width + 3) * 20 if name == "gpt3-13b" else 0
    assert counted == whole - short
    assert counted == pytest.approx(published, rel=0.025)


def test_what_the_authors_leave_open_is_said_where_it_stands():
    for name in ("gpt-3", "gpt3-small", "gpt3-xl"):
        assert "bandwidth" in find(name).uncertain["architecture.decoder.pattern"]
    assert "16 heads" in find("gpt3-xl").uncertain["architecture.decoder.block.attention.heads"]
    assert "architecture.width" in find("gpt3-13b").uncertain
    assert find("llama-7b").uncertain == {}


@pytest.mark.mechanism("A10")
def test_every_second_layer_of_gpt_3_sees_a_band():
    decoder = find("gpt3-small").architecture.decoder
    assert [decoder.layer(i).attention.window for i in range(4)] == [None, 128, None, 128]


@pytest.mark.parametrize("name", models())
def test_a_path_called_uncertain_exists(name):
    model = find(name)
    for one in (model, *map(model.sized, model.sizes)):
        for path in one.uncertain:
            one.set({path: "other"})  # raises where there is no such path


@pytest.mark.mechanism("H7")
@pytest.mark.parametrize(("kind", "config"), [("OpenAIGPT", GPT1), ("GPT2", GPT1)])
def test_two_heads_read_one_text_per_choice(kind, config, tmp_path):
    tiny = _double(kind, config)
    oracle.save(tiny, tmp_path)
    model = variorum.load(tmp_path, dtype="float64")
    assert model.head_names == ("causal_lm", "multiple_choice")
    ids = torch.randint(3, 97, (2, 3, 11), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), oracle.exact():
        right = oracle.load64(tmp_path, f"{kind}DoubleHeadsModel")(ids)
    out = model(ids)
    assert torch.allclose(out.logits_by_head["multiple_choice"], right.mc_logits, atol=1e-11)
    assert torch.allclose(out.logits_by_head["causal_lm"].view(right.logits.shape), right.logits, atol=1e-11)
    model.save(tmp_path / "saved")
    assert variorum.load(tmp_path / "saved", dtype="float64").head_names == model.head_names
    with torch.no_grad(), oracle.exact():
        again = oracle.load64(tmp_path / "saved", f"{kind}DoubleHeadsModel")(ids)
    assert torch.equal(again.mc_logits, right.mc_logits)


def _double(kind, config):
    import transformers

    made = getattr(transformers, f"{kind}DoubleHeadsModel")
    model = made(made.config_class(vocab_size=97, **config)).eval()
    oracle.randomise(model, 0)
    return model


def test_a_choice_behind_an_activation_is_refused_and_the_backbone_is_not(tmp_path):
    oracle.save(_double("GPT2", {**GPT1, "summary_activation": "tanh"}), tmp_path)
    with pytest.raises(variorum.errors.DamagedFile, match="summary_activation"):
        variorum.load(tmp_path)
