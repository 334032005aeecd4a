"""Attention maps are what the model weighs: rows sum to 1, padding gets 0, and DeBERTa's terms add up to its scores."""

from __future__ import annotations

import json
import struct
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import variorum
from tests.cli import models
from tests.parity import tiny
from tests.parity.case import materialise
from tests.tools.command import here as run
from variorum.inference.attention_maps import attention_maps, habits, ranked
from variorum.inference.encode import tensors
from variorum.inference.pictures import encoded

MADE = {"bert": models.bert, "gpt2": models.gpt2, "llama": models.llama, "deberta": models.deberta, "t5": models.t5}
KINDS = {"bert": ["encoder"], "gpt2": ["decoder"], "llama": ["decoder"], "deberta": ["encoder"],
         "t5": ["encoder", "decoder", "cross"]}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    place = tmp_path_factory.mktemp("attention")

    def get(name: str) -> Path:
        return place / name if (place / name).exists() else MADE[name](place / name)

    return get


@pytest.mark.parametrize("name", MADE)
def test_every_row_of_every_map_sums_to_one(made: Callable[[str], Path], name: str) -> None:
    found = attention_maps(variorum.load(made(name)), models.TEXT)
    assert [one.kind for one in found] == KINDS[name]
    for one in found:
        assert one.weights.shape[-2:] == (len(one.queries.tokens), len(one.keys.tokens))
        torch.testing.assert_close(one.weights.sum(-1), torch.ones(one.weights.shape[:-1]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_decoder_sees_nothing_ahead(made: Callable[[str], Path], name: str) -> None:
    weights = attention_maps(variorum.load(made(name)), models.TEXT)[0].weights
    assert torch.equal(weights.triu(1), torch.zeros_like(weights))


@pytest.mark.parametrize("name", ["bert", "deberta"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_gets_no_attention(made: Callable[[str], Path], name: str, side: str) -> None:
    model = variorum.load(made(name))
    rows = model.tokenizer.pad(model.tokenizer.encode_batch([models.TEXT, "the Law"]), side=side)
    given = tensors(model, rows)
    maps = model(**given, output_attentions=True).attentions
    padding = given["attention_mask"] == 0
    assert padding.any() and maps
    for one in maps:
        assert (one.transpose(1, 3)[padding] == 0).all()
        real = one.transpose(1, 2)[~padding].sum(-1)
        torch.testing.assert_close(real, torch.ones_like(real), atol=1e-5, rtol=0)


FAMILIES = [
    "bert/masked_lm", "albert-groups/masked_lm", "deberta/masked_lm", "deberta-v2/masked_lm", "modernbert/masked_lm",
    "xlnet/permutation_lm", "t5/seq2seq_lm", "gpt2/causal_lm", "mistral/causal_lm", "gemma3/causal_lm",
    "deepseek-v3/causal_lm",
]  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
def test_in_every_family_rows_sum_to_one_and_padding_gets_nothing(name: str, tmp_path: Path) -> None:
    model = variorum.load(materialise(tiny.named(name), tmp_path / "model"))
    ids = torch.randint(6, 90, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, :4] = 0  # on the left
    mask[2, 6:] = 0  # on the right
    given = {"decoder_input_ids": ids[:, :5]} if name.startswith("t5") else {}
    out = model(ids, attention_mask=mask, output_attentions=True, **given)
    maps = [*(out.attentions or []), *(out.cross_attentions or [])]
    assert len(maps) == model.spec.architecture.main.depth * (2 if given else 1)
    for one in maps:
        padded = mask == 0 if one.shape[-1] == ids.shape[1] else torch.zeros(3, 5, dtype=torch.bool)
        assert (one.transpose(1, 3)[padded] == 0).all()
        rows = one.transpose(1, 2).sum(-1)
        rows = rows[~padded] if one.shape[-2] == padded.shape[1] else rows
        torch.testing.assert_close(rows, torch.ones_like(rows), atol=1e-5, rtol=0)


def test_debertas_three_terms_add_up_to_what_is_softmaxed(made: Callable[[str], Path]) -> None:
    maps = attention_maps(variorum.load(made("deberta")), models.TEXT)[0]
    assert list(maps.terms) == ["c2c", "c2p", "p2c"]
    total = sum(maps.terms.values())
    assert isinstance(total, torch.Tensor)
    torch.testing.assert_close(total.softmax(-1), maps.weights, atol=1e-5, rtol=0)
    assert all(value.std() > 0.1 for value in maps.terms.values()), "each term says something"


def test_the_position_terms_depend_on_distance_and_the_content_term_does_not(made: Callable[[str], Path]) -> None:
    model = variorum.load(made("deberta"))
    # In the first layer queries and keys of the same word are the same wherever it stands.
    maps = attention_maps(model, "law law law law")[0]
    spots = maps.queries.find("law")[0]
    width = len(maps.queries.find("law"))
    first = {name: value[0, :, spots] for name, value in maps.terms.items()}
    same = [spots + i * width for i in range(4)]
    apart = {name: float((value[:, same].amax(-1) - value[:, same].amin(-1)).max()) for name, value in first.items()}
    assert apart["c2c"] < 1e-5 < 0.1 < min(apart["c2p"], apart["p2c"])


def test_heads_are_ranked_by_the_weight_between_two_words(made: Callable[[str], Path]) -> None:
    directory = made("bert")
    done = run("attention", str(directory), "--text", models.TEXT, "--from", "its", "--to", "Law", "--format", "jsonl")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 3 * 4
    weights = [row["weight"] for row in rows]
    assert weights == sorted(weights, reverse=True)
    best = rows[0]
    # By hand, from the model's own output.
    model = variorum.load(directory)
    encoding = model.tokenizer.encode(models.TEXT)
    out = model(**tensors(model, model.tokenizer.pad([encoding])), output_attentions=True)
    assert out.attentions is not None
    start, end = models.TEXT.index("its"), models.TEXT.index("Law")
    source = [i for i, (a, b) in enumerate(encoding.offsets) if a < start + 3 and b > start]
    target = [i for i, (a, b) in enumerate(encoding.offsets) if a < end + 3 and b > end]
    by_hand = out.attentions[best["layer"]][0, best["head"]][source][:, target].sum(-1).mean()
    assert best["weight"] == pytest.approx(float(by_hand.detach()), abs=1e-6)


def test_cross_attention_goes_from_what_is_written_to_what_is_read(made: Callable[[str], Path]) -> None:
    model = variorum.load(made("t5"))
    maps = attention_maps(model, "The Law will be just", target="its application")
    rows = ranked(maps, "its", "Law")
    assert {row.kind for row in rows} == {"cross"}
    assert len(rows) == 3 * 4
    cross = next(one for one in maps if one.kind == "cross")
    assert cross.queries.labels[0] == "<|endoftext|>"
    assert cross.keys.text == "The Law will be just"
    assert all(habit.itself is None for habit in habits(cross))


def test_json_holds_the_maps_and_the_terms(made: Callable[[str], Path], tmp_path: Path) -> None:
    out = tmp_path / "maps.json"
    words = ("attention", str(made("deberta")), "--text", "the Law", "--layer", "1")
    assert run(*words, "--out", str(out)).returncode == 0
    said = json.loads(run(*words, "--format", "json").stdout)
    assert json.loads(out.read_text()) == said
    one = said["maps"][0]
    assert (one["layers"], one["heads"]) == ([1], [0, 1, 2, 3])
    tokens = len(one["keys"]["tokens"])
    assert np.array(one["weights"]).shape == (1, 4, tokens, tokens)
    assert {name: np.array(value).shape for name, value in one["terms"].items()} == dict.fromkeys(
        ("c2c", "c2p", "p2c"), (1, 4, tokens, tokens)
    )


def test_a_picture_of_one_head_names_every_word_and_every_term(made: Callable[[str], Path], tmp_path: Path) -> None:
    out = tmp_path / "maps.svg"
    text = "the <Law> & will"
    done = run("attention", str(made("deberta")), "--text", text, "--layer", "0", "--head", "1", "--out", str(out))
    assert done.returncode == 0, done.stderr
    root = ET.parse(out).getroot()
    words = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"[CLS]", "the", "<", "&", "will", "layer 0 head 1", "c2c", "c2p", "p2c"} <= set(words)


def test_a_png_is_one_and_shows_the_weights(made: Callable[[str], Path], tmp_path: Path) -> None:
    out = tmp_path / "maps.png"
    done = run("attention", str(made("gpt2")), "--text", "The Law", "--layer", "0", "--head", "1", "--out", str(out))
    assert done.returncode == 0, done.stderr
    pixels = decoded(out.read_bytes())
    side = pixels.shape[0]
    assert tuple(pixels[1, side - 3]) == (255, 255, 255), "the first token sees nothing ahead"
    assert tuple(pixels[2, 2]) == (8, 48, 107), "and all of itself"


def decoded(content: bytes) -> np.ndarray:
    """The pixels of an 8-bit RGB PNG without filters; checksums are checked."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, size = 8, b"", (0, 0)
    while at < len(content):
        length, kind = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + length]
        assert struct.unpack(">I", content[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        size = struct.unpack(">II", body[:8]) if kind == b"IHDR" else size
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(size[1], 1 + 3 * size[0])
    assert (lines[:, 0] == 0).all()
    return lines[:, 1:].reshape(size[1], size[0], 3)


def test_pixels_come_back_from_a_png_as_they_went_in() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert (decoded(encoded(pixels)) == pixels).all()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "its"], "both --from and --to"),
        (["--from", "it", "--to", "Lav"], "'Lav' does not occur in 'The Law"),
        (["--layer", "9"], "there is no layer 9; they run from 0 to 2"),
        (["--head", "4"], "there is no head 4; they run from 0 to 3"),
        (["--maps", "cross"], "there are no cross maps in this model; there are encoder maps"),
        (["--target", "a"], "writes none of its own"),
        (["--out", "a.gif"], "a.gif: is neither .svg nor .png nor .json"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(
    made: Callable[[str], Path], words: list[str], said: str, refuse: Callable[..., str]
) -> None:
    assert said in refuse("attention", str(made("bert")), "--text", models.TEXT, *words, code=2)
