"""Weights that people run from GGUF files: they say what they are known to say, and score as the published class does.

The oracle is the published class, given the same numbers by another route: the format's own reader, its table of
names, and the converter's habits undone by hand.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
import transformers
from torch import Tensor, nn

import variorum
from tests.tools.command import here as run
from tests.tools.weights import GEMMA, need
from variorum.family import find
from variorum.inference.generate import generate
from variorum.inference.habits import end_ids
from variorum.spec.size import size
from variorum.text.corpora import austen
from variorum.text.readers import paragraphs

pytestmark = pytest.mark.real_weights
PERPLEXITY = 1e-3  # how much ours may differ from the oracle's, relatively
WINDOW = 512


def smollm() -> Path:
    return need("smollm2") / "SmolLM2-135M-Instruct.Q4_1.gguf"


def gemma() -> Path:
    return need("gemma-3-270m") / GEMMA


def value(reader: gguf.GGUFReader, key: str) -> Any:
    field = reader.fields.get(key)
    return None if field is None else field.contents()


def oracle(path: Path, arch: gguf.MODEL_ARCH, kind: str, **more: Any) -> nn.Module:
    """The published class with the file's numbers, dequantised by the format's library."""
    reader = gguf.GGUFReader(str(path))
    own = gguf.MODEL_ARCH_NAMES[arch]
    depth = value(reader, f"{own}.block_count")
    made = getattr(transformers, kind)
    config = made.config_class(
        vocab_size=next(int(t.shape[1]) for t in reader.tensors if t.name == "token_embd.weight"),
        hidden_size=value(reader, f"{own}.embedding_length"), num_hidden_layers=depth,
        intermediate_size=value(reader, f"{own}.feed_forward_length"),
        num_attention_heads=value(reader, f"{own}.attention.head_count"),
        num_key_value_heads=value(reader, f"{own}.attention.head_count_kv"),
        rms_norm_eps=value(reader, f"{own}.attention.layer_norm_rms_epsilon"),
        max_position_embeddings=value(reader, f"{own}.context_length"), tie_word_embeddings=True, **more,
    )  # fmt: skip
    with torch.device("meta"):
        wanted = list(made(config).state_dict())
    names = gguf.get_tensor_name_map(arch, depth)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    found: dict[str, Tensor] = {}
    for name in wanted:
        tensor = stored["token_embd.weight" if name == "lm_head.weight" else _named(names, name)]
        found[name] = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        if own == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            rows = found[name].reshape(heads, -1, 2, config.hidden_size)
            found[name] = rows.swapaxes(1, 2).reshape(found[name].shape)
        if own == "gemma3" and "norm" in name:
            found[name] = found[name] - 1
    model = made.from_pretrained(None, config=config, state_dict=found, dtype=torch.float32)
    return model.eval()  # type: ignore[no-any-return]


def _named(names: gguf.TensorNameMap, name: str) -> str:
    theirs = names.get_name(name, try_suffixes=(".weight",))
    assert theirs is not None, name
    return theirs


def scores(model: nn.Module, ids: Tensor, last: int = 0) -> Tensor:
    """Logits [T, V] of one text, or of its ``last`` tokens."""
    with torch.no_grad():
        logits: Tensor = model(ids[None], logits_to_keep=last).logits[0]
    return logits


def perplexity(logits: Tensor, ids: Tensor) -> float:
    return float(nn.functional.cross_entropy(logits[:-1].float(), ids[1:]).exp())


def judged(judge: Any, before: str, answer: str) -> float:
    """The perplexity of ``answer`` after ``before``."""
    start = len(judge.tokenizer.encode(before).ids)
    ids = torch.tensor(judge.tokenizer.encode(before + answer).ids)
    return perplexity(scores(judge, ids)[start - 1 :], ids[start - 1 :])


def chapter() -> str:
    """The first chapter of Northanger Abbey."""
    found = re.split(r"(?m)^ *CHAPTER \w+\.?\s*$", austen()["Northanger Abbey"])
    return found[1].strip()


def test_smollm_knows_the_capital_of_japan() -> None:
    done = run("generate", str(smollm()), "The capital of Japan is", "--max-new-tokens", "8")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("The capital of Japan is Tokyo")


def test_smollm_answers_as_its_template_has_it_and_stops_by_itself() -> None:
    words = ("generate", str(smollm()), "What is the capital of Japan?", "--chat", "--max-new-tokens", "60")
    said = json.loads(run(*words, "--format", "json").stdout)
    assert "Tokyo" in said["text"] and said["stopped"] and said["tokens"][-1] == "<|im_end|>"
    assert variorum.load(smollm()).chat([{"role": "user", "content": words[2]}], max_new_tokens=60) == said["text"]


def test_smollms_perplexity_on_a_chapter_is_the_oracles() -> None:
    model = variorum.load(smollm())
    ids = torch.tensor(model.tokenizer.encode(chapter()).ids)
    assert len(ids) > 1500
    ours = scores(model, ids)
    rope = {"rope_type": "default", "rope_theta": 100_000.0}
    theirs = scores(oracle(smollm(), gguf.MODEL_ARCH.LLAMA, "LlamaForCausalLM", rope_parameters=rope), ids)
    mine, wanted = perplexity(ours, ids), perplexity(theirs, ids)
    assert abs(mine / wanted - 1) < PERPLEXITY
    assert 10 < wanted < 40
    assert float((ours - theirs).abs().max()) < 1e-3 * float(theirs.std())


def test_gemma_writes_fluent_text_across_its_window_with_the_oracles_scores() -> None:
    model = variorum.load(gemma())
    assert model.spec.architecture.decoder.layer(0).attention.window == WINDOW
    assert size(model.spec, head="causal_lm").parameters == size(find("gemma-3-270m"), head="causal_lm").parameters
    text = "\n\n".join(" ".join(one.split()) for one in paragraphs(chapter()))
    prompt = model.tokenizer.encode(text).ids[: WINDOW - 30]
    written = generate(model, [prompt], max_new_tokens=60, end_ids=end_ids(model))[0]
    ids = torch.tensor([*prompt, *written.ids])
    assert len(ids) > WINDOW + 20
    rope = {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}  # fmt: skip
    published = oracle(
        gemma(), gguf.MODEL_ARCH.GEMMA3, "Gemma3ForCausalLM", head_dim=256, sliding_window=WINDOW,
        query_pre_attn_scalar=256, rope_parameters=rope,
    )  # fmt: skip
    theirs, ours = (scores(one, ids, len(written.ids) + 40) for one in (published, model))
    assert float((ours - theirs).abs().max()) < 1e-3 * float(theirs.std())
    # What was written over the cache, a ring of one window in most layers, is what the whole text gives.
    best = theirs[39:-1].topk(2)
    sure = best.values[:, 0] - best.values[:, 1] > 4e-3 * theirs.std()
    assert torch.equal(best.indices[sure, 0], torch.tensor(written.ids)[sure]) and sure.sum() > 50
    answer = model.tokenizer.decode(written.ids)
    known = set(re.findall(r"[a-z]+", " ".join(austen().values()).lower()))
    words = re.findall(r"[a-z]+", answer.lower())
    assert len(words) > 30 and sum(word in known for word in words) >= 0.95 * len(words), answer
    # Fluent to another model too, which tells it from the same words in another order.
    judge, before = variorum.load(smollm()), model.tokenizer.decode(prompt)[-1200:]
    fluent, muddled = (judged(judge, before, one) for one in (answer, " ".join(sorted(answer.split()))))
    assert fluent < 40 and 3 * fluent < muddled, (answer, fluent, muddled)
