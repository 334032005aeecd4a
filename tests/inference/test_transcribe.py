"""A recording is written down stretch by stretch, in the language that is told or heard, without what is banned."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import transformers

import variorum
from tests.cli.verbs import answered, refused, said
from tests.test_audio import tone, written
from variorum import audio
from variorum.cli import main
from variorum.errors import UsageError
from variorum.family import find
from variorum.family.transformer import shape
from variorum.family.whisper import steps
from variorum.inference.timestamps import Stamps
from variorum.inference.transcribe import NOBODY, PLAIN, START, transcribe
from variorum.tasks.metrics.text import word_errors
from variorum.text import train_byte_level_bpe
from variorum.text.corpora import austen

LANGUAGES = ("en", "de", "hi")
SPECIAL = [
    "<|endoftext|>",
    START,
    *(f"<|{code}|>" for code in LANGUAGES),
    "<|translate|>",
    "<|transcribe|>",
    NOBODY[0],
    PLAIN,
]
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


def sound(seconds: float, seed: int = 0, pauses: Sequence[float] = ()) -> torch.Tensor:
    """Noise on a tone, silent for a third of a second around each of ``pauses``."""
    noise = torch.randn(int(seconds * audio.RATE), generator=torch.Generator().manual_seed(seed))
    swell = torch.sin(torch.arange(len(noise)) * 2 * math.pi * 330 / audio.RATE)
    found = 0.1 * noise + 0.3 * swell
    for at in pauses:
        found[int((at - 1 / 6) * audio.RATE) : int((at + 1 / 6) * audio.RATE)] = 0
    return found


@pytest.mark.mechanism("I4")
def test_each_stretch_is_what_it_is_alone(directory: Path) -> None:
    model = variorum.load(directory)
    whole = sound(70, pauses=(26, 52))
    found = transcribe(model, whole, language="en")
    assert [round(one.start) for one in found] == [0, 26, 52]
    assert [one.end for one in found] == [found[1].start, found[2].start, 70]
    for one in found:
        piece = whole[round(one.start * audio.RATE) : round(one.end * audio.RATE)]
        assert transcribe(model, piece, language="en")[0].ids == one.ids
    assert len({tuple(one.ids) for one in found}) > 1
    assert all(len(one.ids) <= ROWS - 4 for one in found)


def test_stretches_join_without_gap_or_overlap_and_are_cut_in_pauses() -> None:
    pauses = (5, 27, 44, 49, 71, 95)
    whole = sound(110, pauses=pauses)
    found = audio.stretches(whole)
    assert [begin for begin, _ in found] == [0, *(end for _, end in found[:-1])]
    assert found[-1][1] == len(whole)
    assert all(end - begin <= 30 * audio.RATE for begin, end in found)
    assert all(any(abs(end / audio.RATE - at) < 1 / 6 for at in pauses) for _, end in found[:-1])
    assert audio.stretches(whole[: 30 * audio.RATE]) == [(0, 30 * audio.RATE)]


def test_what_is_silent_is_not_read(directory: Path) -> None:
    model = variorum.load(directory)
    faint = 1e-4 * sound(40)
    assert transcribe(model, torch.zeros(16_000)) == []
    assert transcribe(model, faint) == []
    between = transcribe(model, torch.cat((faint, sound(2), faint)), language="en")
    assert len(between) == 1
    assert between[0].start <= 40 and between[0].end >= 42


@pytest.mark.parametrize(("sharpness", "written"), [(0.01, False), (100.0, True)])
def test_nothing_is_written_where_nobody_is_heard_and_the_words_are_unsure(
    directory: Path, sharpness: float, written: bool
) -> None:
    model = variorum.load(directory)
    nobody, calls = model.tokenizer.token_to_id(NOBODY[0]), []

    def changed(module: object, given: object, scores: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        scores = sharpness * scores
        return scores.index_fill(-1, torch.tensor([nobody]), 1e4) if len(calls) == 1 else scores

    assert transcribe(model, sound(3), language="en") != []
    model.heads["seq2seq_lm"].register_forward_hook(changed)
    assert bool(transcribe(model, sound(3), language="en")) == written


@pytest.mark.parametrize("seed", range(20))
def test_stamps_may_follow_what_the_released_code_lets_follow(seed: int) -> None:
    first, end, vocab = 60, 50, 160
    draw = random.Random(seed)
    written = [
        draw.randrange(50) if draw.random() < 0.5 else draw.randrange(first, first + 40) for _ in range(seed % 6)
    ]
    scores = 3 * torch.randn(vocab, generator=torch.Generator().manual_seed(seed))
    config = transformers.GenerationConfig(
        no_timestamps_token_id=first - 1, eos_token_id=end, max_initial_timestamp_index=50
    )
    rule = transformers.generation.logits_process.WhisperTimeStampLogitsProcessor(config, begin_index=3)
    right = rule(torch.tensor([[55, 56, 57, *written]]), scores[None])[0]
    assert torch.equal(Stamps(first, end).allowed(scores, written), right)


def test_phrases_stand_between_their_stamps() -> None:
    stamps = Stamps(60, 50)
    ids = [60, 1, 2, 70, 70, 3, 85, 90, 4, 5]
    assert list(stamps.segments(ids, 0.5)) == [(0, 0.2, [1, 2]), (0.2, 0.5, [3]), (0.5, 0.5, [4, 5])]
    assert list(stamps.segments([1, 2], 7.0)) == [(0, 7.0, [1, 2])]
    assert list(stamps.segments([60, 99], 7.0)) == []


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


def test_the_command_says_what_it_heard(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = written(tmp_path / "a.wav", tone(8000))
    heard = transcribe(variorum.load(directory), audio.read_wav(recording), language="hi")
    done = answered(capsys, "transcribe", str(directory), str(recording), "--language", "hi")
    assert [(one["text"], one["ids"], one["language"]) for one in done] == [(heard[0].text, heard[0].ids, "hi")]
    shown = said(capsys, "transcribe", str(directory), str(recording), "--language", "hi")
    assert shown == "".join(one for one in heard[0].text if one.isprintable()) + "\n"
    reference = tmp_path / "right.txt"
    reference.write_text("three words here", "utf-8")
    words = ("transcribe", str(directory), str(recording), "--language", "hi", "--reference", str(reference))
    judged = answered(capsys, *words)
    assert judged["words"] == 3
    assert judged["word_error_rate"] == word_errors(heard[0].text, "three words here").rate


def test_silence_prints_nothing(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silent = written(tmp_path / "silent.wav", [0.0] * 8000)
    assert main(["transcribe", str(directory), str(silent)]) == 0
    assert capsys.readouterr() == ("", "nobody is heard to speak\n")
    assert main(["transcribe", str(directory), str(silent), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_what_makes_no_sense_is_refused(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = str(written(tmp_path / "a.wav", tone(8000)))
    for words, code, says in (
        ((recording, "--language", "xx"), 2, "<|xx|>"),
        ((recording, "--timestamps"), 2, "has no time stamps"),
        ((str(tmp_path / "b.wav"),), 3, "no such file"),
        ((recording, "--reference", str(tmp_path / "none.txt")), 3, "none.txt"),
    ):
        found, line = refused(capsys, "transcribe", str(directory), *words)
        assert found == code
        assert says in line


def test_a_model_that_does_not_hear_is_refused() -> None:
    spec = find("t5").set(shape(32, 2, 4, 40) | {"architecture.heads.seq2seq_lm.scale": 1.0})
    with pytest.raises(UsageError, match="does not write down what it hears"):
        transcribe(variorum.build(spec, head="seq2seq_lm"), sound(1))
