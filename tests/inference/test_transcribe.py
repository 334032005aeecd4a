"""A recording is written down window by window, in the language that is told or heard, without what is banned."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

import variorum
from tests.tools.command import refused
from tests.tools.command import variorum as run
from variorum import audio
from variorum.errors import UsageError
from variorum.family import find
from variorum.family.transformer import shape
from variorum.family.whisper import steps
from variorum.inference.transcribe import PLAIN, START, transcribe
from variorum.text import train_byte_level_bpe
from variorum.text.corpora import austen

LANGUAGES = ("en", "de", "hi")
SPECIAL = ["<|endoftext|>", START, *(f"<|{code}|>" for code in LANGUAGES), "<|translate|>", "<|transcribe|>", PLAIN]
ROWS = 24


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Whisper with a tokenizer, saved as published, its greedy choice forbidden by its generation config."""
    tokenizer = train_byte_level_bpe([austen()["Emma"][:20_000]], 300, SPECIAL)
    ids = {name: tokenizer.token_to_id(name) for name in SPECIAL}
    spec = find("whisper").set(
        shape(32, 2, 4, 40)
        | {
            "architecture.encoder.input.positions": steps(32),
            "architecture.decoder.input.vocab": tokenizer.vocab_size,
            "architecture.decoder.input.positions.rows": ROWS,
            "architecture.decoder.input.pad_id": ids["<|endoftext|>"],
            "architecture.decoder.input.start_id": ids[START],
        }
    )
    model = variorum.build(spec, head="seq2seq_lm", seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            generator = torch.Generator().manual_seed(parameter.numel())
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    model.tokenizer = tokenizer
    place = tmp_path_factory.mktemp("whisper") / "model"
    model.save(place)
    return place


def sound(seconds: float, seed: int = 0) -> torch.Tensor:
    noise = torch.randn(int(seconds * audio.RATE), generator=torch.Generator().manual_seed(seed))
    swell = torch.sin(torch.arange(len(noise)) * 2 * math.pi * 330 / audio.RATE)
    return 0.1 * noise + 0.3 * swell


@pytest.mark.mechanism("I4")
def test_each_window_is_what_it_is_alone(directory: Path) -> None:
    model = variorum.load(directory)
    whole = sound(70)
    windows = transcribe(model, whole, language="en")
    assert [(one.start, one.end) for one in windows] == [(0, 30), (30, 60), (60, 70)]
    for window, piece in zip(windows, whole.split(30 * audio.RATE), strict=True):
        assert transcribe(model, piece, language="en")[0].ids == window.ids
    assert len({tuple(one.ids) for one in windows}) > 1
    assert all(len(one.ids) <= ROWS - 4 for one in windows)


def test_it_writes_what_forward_finds_likeliest(directory: Path) -> None:
    model, tokenizer = variorum.load(directory), variorum.load(directory).tokenizer
    piece = sound(4)
    found = transcribe(model, piece, language="de", task="translate")[0].ids
    ids = [tokenizer.token_to_id(name) for name in (START, "<|de|>", "<|translate|>", PLAIN)]
    features = audio.log_mel(piece)[None]
    for token in found:
        logits = model(input_features=features, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
        assert int(logits.argmax()) == token
        ids.append(token)


def test_the_language_is_heard_where_it_is_not_told(directory: Path) -> None:
    model = variorum.load(directory)
    piece = sound(3)
    start = torch.tensor([[model.tokenizer.token_to_id(START)]])
    with torch.no_grad():
        logits = model(input_features=audio.log_mel(piece)[None], decoder_input_ids=start).logits[0, -1]
    likeliest = max(LANGUAGES, key=lambda code: float(logits[model.tokenizer.token_to_id(f"<|{code}|>")]))
    assert transcribe(model, piece)[0].language == likeliest


def test_banned_ids_are_never_written(directory: Path, tmp_path: Path) -> None:
    free = transcribe(variorum.load(directory), sound(3), language="en")[0].ids
    for file in directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "variorum-manifest.json").unlink()
    config = {"suppress_tokens": [free[1]], "begin_suppress_tokens": [free[0]]}
    (tmp_path / "generation_config.json").write_text(json.dumps(config), "utf-8")
    held = transcribe(variorum.load(tmp_path), sound(3), language="en")[0].ids
    assert held[0] not in (free[0], free[1])
    assert free[1] not in held


def test_the_command_says_what_it_heard(directory: Path, tmp_path: Path) -> None:
    from tests.test_audio import tone, written

    recording = written(tmp_path / "a.wav", tone(8000))
    heard = transcribe(variorum.load(directory), audio.read_wav(recording), language="hi")
    done = json.loads(run("transcribe", str(directory), str(recording), "--language", "hi", "--format", "json").stdout)
    assert [(one["text"], one["ids"], one["language"]) for one in done] == [(heard[0].text, heard[0].ids, "hi")]
    assert "<|xx|>" in refused("transcribe", str(directory), str(recording), "--language", "xx", code=2)
    assert "no such file" in refused("transcribe", str(directory), str(tmp_path / "b.wav"), code=3)


def test_a_model_that_does_not_hear_is_refused() -> None:
    spec = find("t5").set(shape(32, 2, 4, 40) | {"architecture.heads.seq2seq_lm.scale": 1.0})
    with pytest.raises(UsageError, match="does not write down what it hears"):
        transcribe(variorum.build(spec, head="seq2seq_lm"), sound(1))
