"""A GGUF file stands wherever a model can be named on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import save_file

import variorum
from tests.checkpoint import ggufs
from tests.checkpoint.test_gguf import BERT, WRITERS, _wordpiece
from tests.cli.verbs import answered, said
from tests.tools import record
from variorum.cli import main
from variorum.face import Model

CHAT = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}{{ 'a' }}{% endif %}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gguf")


@pytest.fixture(scope="module")
def writer(place: Path) -> Path:
    """A tiny LLaMA with a chat template; its class's own directory lies beside it."""
    kind, arch, config = WRITERS["llama"]
    model = ggufs.oracle_model(kind, config)
    model.save_pretrained(place / "published")  # type: ignore[operator]

    def extra(made: ggufs.gguf.GGUFWriter) -> None:
        ggufs.add_tokens(made)
        made.add_chat_template(CHAT)

    return ggufs.write(place / "writer.gguf", model, arch, extra=extra)


@pytest.fixture(scope="module")
def reader(place: Path) -> Path:
    """A tiny BERT without a pooler."""
    skip = ("pooler.dense.weight", "pooler.dense.bias", "position_ids")
    return ggufs.write(
        place / "reader.gguf", ggufs.oracle_model("BertModel", BERT), "bert", extra=_wordpiece, skip=skip
    )  # fmt: skip


def test_its_spec_is_shown_counted_and_compared(writer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = variorum.load(writer)
    count = sum(p.numel() for p in model.parameters())
    assert answered(capsys, "size", str(writer))["parameters"] == count
    assert f"{count:,}" in said(capsys, "size", str(writer))
    assert "48" in said(capsys, "show", str(writer))
    assert "decoder.layers" in said(capsys, "show", str(writer), "--kind", "learned")
    assert "1 × 5 × 97" in said(capsys, "shapes", str(writer), "--length", "5")
    rows = json.dumps(answered(capsys, "diff", "llama", str(writer)))
    assert "architecture.width" in rows


def test_it_writes_and_answers(writer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("generate", str(writer), "abc", "--max-new-tokens", "5")
    written = answered(capsys, *words)
    assert 0 < len(written["ids"]) <= 5
    loaded: Model = variorum.load(writer)
    assert loaded.generate("abc", max_new_tokens=5) == written["text"]
    chatted = answered(capsys, *words, "--chat", "--system", "xy")
    turns = [{"role": "system", "content": "xy"}, {"role": "user", "content": "abc"}]
    assert loaded.chat(turns, max_new_tokens=5) == chatted["text"]
    prompt = loaded.tokenizer.apply_chat_template(turns, add_generation_prompt=True)
    assert chatted["ids"] == loaded.generate([prompt], max_new_tokens=5)[0]


def test_it_embeds_and_shows_attention(reader: Path, writer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = answered(capsys, "embed", str(reader), "--text", "ab ba")
    assert "48" in json.dumps(vectors) or len(vectors) >= 1
    maps = answered(capsys, "attention", str(writer), "--text", "abc ab", "--layer", "1")
    assert maps["maps"]


def test_what_it_lacks_is_refused_in_one_line(reader: Path, refuse: Callable[..., str]) -> None:
    assert "no masked-language-model head" in refuse("fill-mask", str(reader), "a [MASK]", code=2)
    assert "cannot generate left to right" in refuse("generate", str(reader), "a", code=2)
    assert "no revisions" in refuse("embed", str(reader), "--text", "a", "--revision", "main", code=2)
    assert "no such file" in refuse("embed", "nowhere.gguf", "--text", "a", code=3)


def test_it_is_traced_against_what_the_published_class_recorded(
    writer: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    published = transformers.LlamaForCausalLM.from_pretrained(place / "published").eval()
    given = {"input_ids": torch.tensor([[3, 4, 5, 6]])}
    out = place / "acts.safetensors"
    record.write(record.record(published, given), given, "LlamaForCausalLM", out)
    assert main(["trace", str(writer), "--against", str(out)]) == 0
    said, note = capsys.readouterr()
    assert "all agree" in said and "53 of 58 activations compared" in said + note


def test_it_becomes_a_directory_that_the_library_reads(
    writer: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = answered(capsys, "convert", str(writer), str(place / "out"), "--dtype", "float16")
    assert done["tensors"] == len(list(variorum.load(writer).named_parameters()))
    theirs = transformers.LlamaForCausalLM.from_pretrained(place / "out")
    assert theirs.dtype == torch.float16
    messages = [{"role": "user", "content": "ab"}]
    assert variorum.load(place / "out").tokenizer.apply_chat_template(messages, tokenize=False) == "ab"
    assert theirs.generation_config.eos_token_id == [2]


def test_a_pooling_that_the_directory_cannot_hold_is_told(
    reader: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(reader), str(place / "plain")]) == 0
    assert capsys.readouterr().err == ""  # this file says nothing of it
    skip = ("pooler.dense.weight", "pooler.dense.bias", "position_ids")

    def extra(made: ggufs.gguf.GGUFWriter) -> None:
        made.add_pooling_type(ggufs.gguf.PoolingType.CLS)
        _wordpiece(made)

    model = ggufs.oracle_model("BertModel", BERT)
    pooled = ggufs.write(place / "pooled.gguf", model, "bert", extra=extra, skip=skip)
    assert main(["convert", str(pooled), str(place / "pooled")]) == 0
    assert "how sentences are pooled is not written" in capsys.readouterr().err


def test_nothing_is_written_as_gguf(writer: Path, refuse: Callable[..., str], tmp_path: Path) -> None:
    assert "never written" in refuse("convert", str(writer), str(tmp_path / "new.gguf"), code=2)


@pytest.mark.case("V081")
def test_every_end_token_of_a_generation_config_ends_a_text(tmp_path: Path, writer: Path) -> None:
    """As Llama 3's directories have it: the config names one, the generation config all."""
    model = variorum.load(writer)
    model.origin.generation = {}
    prompts = [[5, 9, 11], [7, 8], [20]]
    free = list(model.generate(prompts, max_new_tokens=9))
    ends = sorted({free[0][1], free[1][4]})
    model.origin.generation = {"eos_token_id": ends}
    model.save(tmp_path / "saved")
    assert json.loads((tmp_path / "saved" / "generation_config.json").read_text()) == {"eos_token_id": ends}
    again: Model = variorum.load(tmp_path / "saved")
    for row, before in zip(again.generate(prompts, max_new_tokens=9), free, strict=True):
        stop = next((i for i, id in enumerate(before) if id in ends), len(before) - 1)
        assert row == before[: stop + 1]
    (tmp_path / "other").mkdir()
    for path in (tmp_path / "saved").iterdir():
        if "manifest" not in path.name:
            (tmp_path / "other" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "other" / "generation_config.json").write_text('{"eos_token_id": [1, "two"]}')
    assert main(["generate", str(tmp_path / "other"), "ab"]) == 7


def test_a_directory_names_its_spec_too(place: Path, capsys: pytest.CaptureFixture[str], writer: Path) -> None:
    by_file, by_directory = (answered(capsys, "size", str(one))["parameters"] for one in (writer, place / "published"))
    assert by_file == by_directory


def test_weights_of_another_suffix_are_not_taken_for_it(tmp_path: Path, refuse: Callable[..., str]) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "model.safetensors")
    refuse("generate", str(tmp_path / "model.safetensors"), "a", code=3)
