"""What a user can get wrong, or a disk can damage, is one line on stderr and a documented exit code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.cli import models
from tests.tools.command import refused
from tests.tools.command import variorum as run

Refuse = Callable[..., str]
MASKED = "the [MASK] will"
QUERY = "bert.encoder.layer.1.attention.self.query.weight"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A save of ours, as it should be."""
    return models.bert(tmp_path_factory.mktemp("errors") / "bert")


@pytest.fixture
def own(original: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(original, tmp_path / "model"))


@pytest.fixture
def published(own: Path) -> Path:
    """The same as others publish it: nothing is recorded about its files."""
    (own / "variorum-manifest.json").unlink()
    return own


def tensors_changed(directory: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    path = directory / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def config_changed(directory: Path, **values: object) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_an_undamaged_copy_works(own: Path) -> None:
    assert run("fill-mask", str(own), MASKED).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["fill-mask", "brt", MASKED], 3, "no model is called 'brt'; did you mean bert"),
        (["embed", "/no/such/place", "--text", "a"], 3, "/no/such/place: no such directory; check the path"),
        (["fill-mask", "./nowhere", MASKED], 3, "./nowhere: no such directory"),
        (["attention", "org/name", "--text", "a"], 3, "org/name: not in the cache at revision main; run `variorum dow"),
        (["generate", "gpt2", "a"], 3, "openai-community/gpt2: not in the cache"),
        (["generate", "llama", "a"], 3, "records no published repository; its sizes do: llama-7b"),
        (["generate", "gpt-4", "a"], 3, "OpenAI has not disclosed"),
        (["generate", "bert", "a"], 2, "bert is an encoder: its attention is bidirectional"),
        (["embed", "a/b@v1", "--revision", "v2", "--text", "a"], 2, "two revisions, v1 and v2"),
        (["fill-mask", "bert"], 2, "requires an argument"),
    ],
)
def test_a_model_that_is_not_there(words: list[str], code: int, said: str, tmp_path: Path) -> None:
    line = refused(*words, code=code, env={"HF_HOME": str(tmp_path)})
    assert said in line


def test_a_directory_that_is_no_model(tmp_path: Path, refuse: Refuse) -> None:
    assert "no config.json here" in refuse("fill-mask", str(tmp_path), MASKED, code=3)
    (tmp_path / "config.json").write_text('{"model_type": "brt"}')
    assert "model_type 'brt' is not known; did you mean bert" in refuse("fill-mask", str(tmp_path), MASKED, code=3)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert "no weights" in refuse("fill-mask", str(tmp_path), MASKED, code=3)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    assert "is a pickle, which can run code" in refuse("fill-mask", str(tmp_path), MASKED, code=4)
    (tmp_path / "config.json").write_text("{")
    assert "config.json" in refuse("fill-mask", str(tmp_path), MASKED, code=7)


def test_a_truncated_save(own: Path, refuse: Refuse) -> None:
    path = own / "model.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-8])
    line = refuse("fill-mask", str(own), MASKED, code=7)
    assert "model.safetensors" in line and f"{size:,}" in line and f"{size - 8:,}" in line


def test_a_flipped_bit_in_a_save(own: Path, refuse: Refuse) -> None:
    path = own / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.write_bytes(content)
    line = refuse("fill-mask", str(own), MASKED, code=7)
    assert "model.safetensors" in line and "sha256" in line


def test_a_missing_tensor(published: Path, refuse: Refuse) -> None:
    total = len(load_file(published / "model.safetensors"))
    tensors_changed(published, lambda tensors: tensors.pop(QUERY))
    line = refuse("fill-mask", str(published), MASKED, code=7)
    assert f"1 of {total} tensors are missing, the first is {QUERY}" in line


def test_an_extra_tensor(published: Path, refuse: Refuse) -> None:
    extra = QUERY.replace("query", "querry")
    tensors_changed(published, lambda tensors: tensors.update({extra: torch.ones(2)}))
    line = refuse("fill-mask", str(published), MASKED, code=7)
    assert f"the first is {extra}; did you mean {QUERY}" in line


def test_a_tensor_of_the_wrong_shape(published: Path, refuse: Refuse) -> None:
    tensors_changed(published, lambda tensors: tensors.update({QUERY: torch.ones(32, 31)}))
    line = refuse("fill-mask", str(published), MASKED, code=7)
    assert f"{QUERY} measures [32, 31], this model needs [32, 32]" in line


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_tensor_that_is_not_finite(published: Path, value: float, refuse: Refuse) -> None:
    tensors_changed(published, lambda tensors: tensors[QUERY][3].fill_(value))
    line = refuse("fill-mask", str(published), MASKED, code=7)
    assert QUERY in line and "32 values that are not finite" in line


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"num_attention_heads": 5}, "5 heads do not divide a width of 32"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0, which is not a usable size"),
        ({"hidden_size": "wide"}, "hidden_size is 'wide'"),
        ({"position_embedding_type": "relative_key"}, "only 'absolute' is implemented"),
        ({"num_hidden_layers": 4}, "tensors are missing, the first is bert.encoder.layer.3"),
        ({"num_hidden_layers": 2}, "tensors are not part of this model, the first is bert.encoder.layer.2"),
        ({"vocab_size": 10}, "measures ["),
    ],
)
def test_a_config_that_makes_no_sense_or_is_of_another_model(
    published: Path, values: dict[str, object], said: str, refuse: Refuse
) -> None:
    config_changed(published, **values)
    line = refuse("fill-mask", str(published), MASKED, code=7)
    assert said in line


def test_a_text_longer_than_the_model_takes(original: Path, refuse: Refuse) -> None:
    line = refuse("fill-mask", str(original), "law " * 60 + "[MASK]", code=2)
    assert "is longer than the 48 this model takes" in line


@pytest.mark.mechanism("G4")
def test_an_encoder_is_not_asked_to_write(original: Path, refuse: Refuse) -> None:
    line = refuse("generate", str(original), "The Law", code=2)
    assert "is an encoder: its attention is bidirectional, so it cannot generate left to right" in line
    assert "use fill-mask or embed, or a decoder such as gpt2 or llama" in line


def test_a_decoder_has_no_masks_to_fill(tmp_path: Path, refuse: Refuse) -> None:
    line = refuse("fill-mask", str(models.gpt2(tmp_path / "gpt2")), MASKED, code=2)
    assert "no masked-language-model head" in line


def test_a_model_without_a_tokenizer_reads_no_text(published: Path, refuse: Refuse) -> None:
    for file in published.iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            file.unlink()
    assert "has no tokenizer" in refuse("embed", str(published), "--text", "a", code=2)


def test_a_device_that_is_not_there(original: Path, refuse: Refuse) -> None:
    assert "device nowhere: cannot be used" in refuse("fill-mask", str(original), MASKED, "--device", "nowhere", code=2)


def test_a_directory_has_no_revision(original: Path, refuse: Refuse) -> None:
    assert "a directory has no revisions" in refuse("fill-mask", str(original), MASKED, "--revision", "v1", code=2)
