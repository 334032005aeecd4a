"""``size`` tells what a model costs in full, several side by side, and what fits a memory."""

from __future__ import annotations

import re

import pytest

from tests.cli.verbs import answered, listed, refused, said
from variorum.family import find
from variorum.spec.size import size

Capture = pytest.CaptureFixture[str]


def test_one_model_is_told_in_full(capsys: Capture) -> None:
    text = said(capsys, "size", "llama-3-8b", "--context", "8192", "--batch", "4")
    for fact in ("8,030,261,248", "14.96 GiB", "131,072 B", "4.00 GiB", "decoder 0–31"):
        assert fact in text


def test_several_stand_in_a_table(capsys: Capture) -> None:
    lines = said(capsys, "size", "bert", "ALBERT", "t5-base").splitlines()
    assert len(lines) == 4
    assert [line.split()[0] for line in lines[1:]] == ["bert", "albert", "t5-base"]


def test_data_are_those_of_the_function(capsys: Capture) -> None:
    found = answered(capsys, "size", "mixtral-8x7b", "--context", "100", "--batch", "2", "--dtype", "float32")
    expected = size(find("mixtral-8x7b"), context=100, batch=2, dtype="float32")
    assert found["parameters"] == expected.parameters
    assert (found["active"], found["flops"], found["cache"]) == (expected.active, expected.flops, expected.cache)
    assert len(found["layers"]) == 32
    assert sum(term["value"] for term in found["terms"] if term["of"] == "cache") == found["cache"]


def test_lines_are_models(capsys: Capture) -> None:
    assert [row["name"] for row in listed(capsys, "size", "bert", "gpt2")] == ["bert", "gpt2"]
    assert [row["name"] for row in listed(capsys, "size", "bert")] == ["bert"]


def test_each_term_has_its_formula(capsys: Capture) -> None:
    text = said(capsys, "size", "llama-2-7b", "--formulas")
    for formula in ("32 × 4,096 × 4,096", "32 × 2·D·H·d", "32 × 2·T·H·d", "32 × B·K·T·d·2", "2·D·V"):
        assert formula in text
    assert "min(T, 4096)" in said(capsys, "size", "mistral", "--formulas", "--context", "8192")


@pytest.mark.parametrize(("head", "count"), [("none", 108_891_648), ("masked_lm", 109_514_298)])
def test_the_head_is_chosen(capsys: Capture, head: str, count: int) -> None:
    model = "bge-base-en-v1.5" if head == "masked_lm" else "electra-base-discriminator"
    assert answered(capsys, "size", model, "--head", head)["parameters"] == count


def test_layers_that_agree_share_a_line(capsys: Capture) -> None:
    lines = said(capsys, "size", "gemma-2-9b", "--context", "8192").splitlines()
    assert [line.split("  ")[0] for line in lines[-2:]] == ["decoder 0–40 by 2", "decoder 1–41 by 2"]


@pytest.mark.parametrize(("model", "tokens"), [("Llama-2-7B", 23_446), ("llama-3-8b", 74_075)])
def test_fit_finds_the_longest_context(capsys: Capture, model: str, tokens: int) -> None:
    assert f"24.00 GiB holds {tokens:,} tokens" in said(capsys, "size", model, "--fit", "24GiB")
    assert answered(capsys, "size", model, "--fit", "24GiB")["context"] == tokens


def test_fit_finds_the_largest_batch(capsys: Capture) -> None:
    found = answered(capsys, "size", "llama-2-7b", "--fit", "24GiB", "--context", "4096")
    assert (found["solved"], found["batch"]) == ("batch", 5)
    assert "holds 5 sequences of 4,096 tokens" in said(
        capsys, "size", "llama-2-7b", "--fit", "24GiB", "--context", "4096"
    )


def test_fit_takes_a_batch_and_a_narrower_type(capsys: Capture) -> None:
    alone = answered(capsys, "size", "llama-2-7b", "--fit", "24GiB")["context"]
    four = answered(capsys, "size", "llama-2-7b", "--fit", "24GiB", "--batch", "4")["context"]
    assert four == alone // 4
    assert answered(capsys, "size", "llama-2-7b", "--fit", "24GiB", "--dtype", "int8")["context"] > 2 * alone


def test_fit_says_what_the_limit_is_when_it_is_not_memory(capsys: Capture) -> None:
    text = said(capsys, "size", "gpt2", "mistral", "modernbert", "--fit", "24GiB")
    assert "1,024 tokens, all that its position table has" in text
    assert "its cache stops growing" in text
    assert "it keeps no cache" in text


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["size"], 2, "no model is named"),
        (["size", "nosuch"], 3, "variorum tree"),
        (["size", "berd"], 3, "did you mean bert"),
        (["size", "bert", "--head", "masked_ml"], 3, "did you mean masked_lm"),
        (["size", "bert", "--context", "600"], 2, "600 tokens are more than the 512"),
        (["size", "bert", "--dtype", "float8"], 2, "unknown dtype"),
        (["size", "llama-2-7b", "--fit", "8GiB"], 5, "does not fit"),
        (["size", "llama-2-7b", "--fit", "lots"], 2, "write it like 24GiB"),
        (["size", "gpt-4"], 3, "not disclosed"),
    ],
)
def test_what_cannot_be_is_one_line(capsys: Capture, words: list[str], code: int, part: str) -> None:
    got, line = refused(capsys, *words)
    assert got == code
    assert part in line


# What tables in lectures and papers say of each: layers, width, query and key heads, the figure that is quoted. A 405B
# with 16 key heads is often told; the paper has 8, and 16 is what a checkpoint cut for 16 devices holds twice.
TABLES = {
    "bert-base-uncased": (12, 768, "12/12", "110M", 109_482_240),
    "bert-large-uncased": (24, 1024, "16/16", "340M", 335_141_888),
    "roberta-base": (12, 768, "12/12", "125M", 124_645_632),
    "gpt-1": (12, 768, "12/12", "117M", 116_534_784),
    "gpt2-xl": (48, 1600, "25/25", "1.5B", 1_557_611_200),
    "gpt3-175b": (96, 12_288, "96/96", "175B", 174_604_259_328),
    "llama-3-8b": (32, 4096, "32/8", "8B", 8_030_261_248),
    "llama-3-70b": (80, 8192, "64/8", "70B", 70_553_706_496),
    "llama-3-405b": (126, 16_384, "128/8", "405B", 405_853_388_800),
}


def test_one_table_has_the_figures_that_papers_quote_beside_the_exact_ones(capsys: Capture) -> None:
    heading, *lines = said(capsys, "size", *TABLES).splitlines()
    assert re.split(r"\s{2,}", heading) == [
        "model", "layers", "width", "heads Q/KV", "head dim", "parameters", "published", "weights", "FLOPs/token",
        "cache B/token",
    ]  # fmt: skip
    for line, (name, (layers, width, heads, quoted, exact)) in zip(lines, TABLES.items(), strict=True):
        cells = re.split(r"\s{2,}", line)
        assert cells[:4] == [name, str(layers), f"{width:,}", heads]
        assert cells[5:7] == [f"{exact:,}", quoted]
    rows = answered(capsys, "size", *TABLES)
    for row, (layers, width, heads, _, exact) in zip(rows, TABLES.values(), strict=True):
        assert (sum(row["depth"].values()), row["width"], row["parameters"]) == (layers, width, exact)
        assert f"{row['heads']}/{row['kv_heads']}" == heads
        # Quoted figures are rounded, and none is further off than BERT-large's, which counts what its paper left out.
        assert abs(row["published"] - exact) / exact < 0.04


@pytest.mark.mechanism("K2")
def test_the_cache_of_one_token_is_what_the_formula_says(capsys: Capture) -> None:
    quoted = {
        "llama-2-7b": 524_288, "llama-2-70b": 327_680, "llama-3-8b": 131_072, "mistral-7b-v0.1": 131_072,
        "llama-3.1-405b": 516_096, "gemma-2b": 18_432, "deepseek-v3": 70_272,
    }  # fmt: skip
    found = {row["name"]: row["cache_per_token"] for row in answered(capsys, "size", *quoted)}
    assert {name.lower(): count for name, count in found.items()} == quoted


def test_a_table_tells_of_both_stacks_of_experts_and_of_latents(capsys: Capture) -> None:
    text = said(capsys, "size", "t5-small", "mixtral-8x7b", "deepseek-v3")
    assert "active" in text.splitlines()[0]
    assert " 6 + 6 " in text and " 128/latent " in text and " 12,879,925,248 " in text
    assert "tokens" not in text.splitlines()[0]
    asked = said(capsys, "size", "t5-small", "mixtral-8x7b", "--batch", "2").splitlines()[0]
    assert asked.split()[-4:] == ["cache", "activations", "tokens", "batch"]


CHANGES = (
    "width=24", "decoder.depth=2", "decoder.input.vocab=50", "decoder.block.feedforward.width=8",
    "decoder.block.attention=Attention(heads=2,kv_heads=2,head_dim=12)",
)  # fmt: skip
SMALL = [word for change in CHANGES for word in ("--set", change)]


def test_a_run_is_told_beside_what_was_predicted(capsys: Capture) -> None:
    rows = {row["figure"]: row for row in answered(capsys, "size", "gpt2", *SMALL, "--measure", "--context", "8")}
    for figure in ("parameters", "weights", "FLOPs of one pass", "cache"):
        assert rows[figure]["predicted"] == rows[figure]["observed"] > 0
        assert rows[figure]["observed_by_predicted"] == 1
    assert rows["cache"]["observed"] == 2 * 2 * 24 * 8 * 4
    assert rows["time of one pass"]["predicted"] is None
    text = said(capsys, "size", "gpt2", *SMALL, "--measure", "--context", "8", "--dtype", "bfloat16")
    assert text.splitlines()[-1] == "8 tokens × batch 1, bfloat16, on cpu; weights are fresh"
    assert "activations held at once" in text
    both = said(capsys, "size", "gpt2", "llama", *SMALL, "--measure", "--context", "8")
    assert [line.split("  ")[0] for line in both.splitlines()[1:15:7]] == ["gpt2, changed", "llama, changed"]


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["llama-3-70b"], 5, "llama-3-70b takes about"),
        (["gpt2", "--dtype", "int8"], 2, "no model runs in int8"),
        (["gpt2", *SMALL, "--device", "nowhere"], 2, "device nowhere"),
        (["vit", "--context", "3"], 2, "an image becomes 197 vectors"),
    ],
)
def test_what_cannot_be_measured_is_one_line(words: list[str], code: int, part: str, capsys: Capture) -> None:
    got, line = refused(capsys, "size", *words, "--measure")
    assert got == code
    assert part in line
