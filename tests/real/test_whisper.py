"""Whisper base hears the names of loudspeakers as the published code does, from the WAV files of a distribution."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

import variorum
from tests.tools.command import here as run
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


@pytest.fixture(scope="module")
def roll() -> tuple[torch.Tensor, list[str]]:
    """All names three times, with a pause after each that is longer than those within them: more than 30 seconds."""
    names, pause = SPOKEN * 3, torch.zeros(int(0.5 * audio.RATE))
    samples = torch.cat([
        piece for name in names for piece in (audio.read_wav(need("alsa-sounds") / f"{name}.wav"), pause)
    ])  # fmt: skip
    return samples, [name.replace("_", " ").lower() for name in names]


@pytest.mark.parametrize("timestamps", [False, True])
def test_no_word_is_lost_or_doubled_where_a_long_recording_is_cut(
    roll: tuple[torch.Tensor, list[str]], model: variorum.Model, timestamps: bool
) -> None:
    samples, names = roll
    found = transcribe(model, samples, language="en", timestamps=timestamps)
    assert len(samples) > 30 * audio.RATE
    assert words(" ".join(one.text for one in found)) == " ".join(names)
    assert all(one.start < one.end <= after.start for one, after in itertools.pairwise(found))


def test_phrases_are_timed_as_the_oracle_times_them(model: variorum.Model, oracle: Any) -> None:
    import transformers

    names = ("Front_Center", "Side_Left")
    samples = torch.cat([audio.read_wav(need("alsa-sounds") / f"{name}.wav") for name in names])
    found = transcribe(model, samples, language="en", timestamps=True)
    features = transformers.WhisperFeatureExtractor()(
        samples.numpy(), sampling_rate=audio.RATE, return_tensors="pt"
    ).input_features
    told = oracle.generate(features, language="en", task="transcribe", return_timestamps=True)[0].tolist()
    stamps = [one for one in told if one > 50_363]
    assert [one.ids for one in found] == [
        list(group) for plain, group in itertools.groupby((t for t in told if t not in (50_257,)), lambda t: t < 50_257)
        if plain
    ]  # fmt: skip
    assert found[0].start == pytest.approx(0.02 * (stamps[0] - 50_364))
    assert found[-1].end == pytest.approx(min(0.02 * (stamps[-1] - 50_364), len(samples) / audio.RATE))


@pytest.mark.parametrize("level", [0.0, 1e-3, 1e-2, 1e-1])
def test_noise_and_silence_give_no_text(level: float, model: variorum.Model) -> None:
    noise = level * torch.randn(10 * audio.RATE, generator=torch.Generator().manual_seed(0))
    assert transcribe(model, noise) == []


def test_speech_between_silences_is_heard(model: variorum.Model) -> None:
    spoken = audio.read_wav(need("alsa-sounds") / "Rear_Left.wav")
    (found,) = transcribe(model, torch.cat((torch.zeros(40 * audio.RATE), spoken, torch.zeros(40 * audio.RATE))))
    assert words(found.text) == "rear left"
    assert found.language == "en"


def test_logits_are_the_oracles(model: variorum.Model, oracle: Any) -> None:
    features = audio.log_mel(audio.read_wav(need("alsa-sounds") / "Side_Left.wav"))[None]
    ids = torch.tensor([[50_258, 50_259, 50_359, 50_363, 11, 1411]])
    with torch.no_grad():
        ours = model(input_features=features, decoder_input_ids=ids).logits
        right = oracle(input_features=features, decoder_input_ids=ids).logits
    assert float((ours - right).abs().max() / right.std()) < 1e-4
    assert model.origin.unused == {}


def test_the_command_writes_it_down(directory: Path) -> None:
    done = run("transcribe", str(directory), str(need("alsa-sounds") / "Front_Center.wav"))
    assert words(done.stdout) == "front center"
