"""Whisper base hears the names of loudspeakers as the published code does, from the WAV files of a distribution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import variorum
from tests.tools.command import variorum as run
from tests.tools.ctranslate import convert
from tests.tools.weights import need
from variorum import audio
from variorum.inference.transcribe import transcribe

pytestmark = pytest.mark.real_weights
SPOKEN = (
    "Front_Center", "Front_Left", "Front_Right", "Rear_Center", "Rear_Left", "Rear_Right", "Side_Left", "Side_Right",
)  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whisper") / "base"
    convert(need("whisper-base"), place)
    return place


@pytest.fixture(scope="module")
def oracle(directory: Path) -> Any:
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers.WhisperForConditionalGeneration.from_pretrained(directory, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def model(directory: Path) -> variorum.Model:
    return variorum.load(directory)


def words(text: str) -> str:
    return " ".join("".join(letter if letter.isalpha() else " " for letter in text.lower()).split())


@pytest.mark.mechanism("I4")
@pytest.mark.parametrize("name", SPOKEN)
def test_a_loudspeaker_is_written_down_as_the_oracle_does(name: str, model: variorum.Model, oracle: Any) -> None:
    import transformers

    samples = audio.read_wav(need("alsa-sounds") / f"{name}.wav")
    heard = transcribe(model, samples, language="en")[0]
    features = transformers.WhisperFeatureExtractor()(
        samples.numpy(), sampling_rate=audio.RATE, return_tensors="pt"
    ).input_features
    told = oracle.generate(features, language="en", task="transcribe", return_timestamps=False)[0].tolist()
    assert heard.ids == [one for one in told if one != 50_257]
    assert words(heard.text) == name.replace("_", " ").lower()


def test_logits_are_the_oracles(model: variorum.Model, oracle: Any) -> None:
    features = audio.log_mel(audio.read_wav(need("alsa-sounds") / "Side_Left.wav"))[None]
    ids = torch.tensor([[50_258, 50_259, 50_359, 50_363, 11, 1411]])
    with torch.no_grad():
        ours = model(input_features=features, decoder_input_ids=ids).logits
        right = oracle(input_features=features, decoder_input_ids=ids).logits
    assert float((ours - right).abs().max() / right.std()) < 1e-4
    assert model.origin.unused == {}


def test_the_command_writes_it_down(directory: Path) -> None:
    done = run("transcribe", str(directory), str(need("alsa-sounds") / "Front_Center.wav"), timeout=120)
    assert words(done.stdout) == "front center"
