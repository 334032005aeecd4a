"""The data stream: shards that do not depend on who built them, rows by format, an order that needs no replay."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.faults.runs import text
from variorum.checkpoint import manifest
from variorum.errors import DamagedFile, NotFound, UsageError
from variorum.text import Tokenizer, train_wordpiece
from variorum.text.sentence_ends import sentence_starts
from variorum.text.stream import Source
from variorum.training import shards
from variorum.training.feed import Dress, Feed, Phase
from variorum.training.formats import Shape, cut
from variorum.training.order import Shuffle

LENGTH = 24


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_wordpiece([text(40)], 200)


@pytest.fixture(scope="module")
def folder(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("corpus")
    (place / "texts.txt").write_text(text(40))
    sources = [Source(place=str(place / "texts.txt"))]
    shards.build(place / "data", sources, tokenizer, shards.survey(sources, 0.1))
    return place


@pytest.fixture(scope="module")
def corpus(folder: Path) -> shards.Corpus:
    return shards.read(folder / "data", "train")


def shape(tokenizer: Tokenizer, texts: int = 1) -> Shape:
    return Shape(length=LENGTH, wrapper=tokenizer.wrapper.added(texts), end=tokenizer.sep_id or 0)


def test_the_kinds_of_files_give_the_same_documents(tmp_path: Path):
    texts = ["One. Two.", "Three.\nFour."]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"body": one}) + "\n" for one in [*texts, "  "]))
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write((tmp_path / "a.jsonl").read_text())
    parquet.write_table(pa.table({"id": [1, 2, 3], "body": [*texts, None]}), tmp_path / "c.parquet")
    for name in ("a.jsonl", "b.jsonl.gz", "c.parquet"):
        assert list(Source(place=str(tmp_path / name), column="body").documents()) == texts
    (tmp_path / "d.txt").write_text("One. Two.\n\nThree.\nFour.\n")
    assert list(Source(place=str(tmp_path / "d.txt")).documents()) == ["One. Two.", "Three. Four."]
    assert len(list(Source(place=str(tmp_path), column="body").documents())) == 8
    novels = list(Source(place="austen").documents())
    assert len(novels) == 269
    assert len(one := list(Source(place="austen/Persuasion").documents())) == 24 and set(one) < set(novels)


def test_what_cannot_be_read_is_told_with_its_place(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"text": "good"}\n{"txt": "bad"}\n')
    with pytest.raises(DamagedFile, match=r"a\.jsonl, line 2: has no text 'text'; did you mean txt"):
        list(Source(place=str(tmp_path / "a.jsonl")).documents())
    with pytest.raises(NotFound, match="did you mean austen"):
        list(Source(place="austin").documents())
    with pytest.raises(NotFound, match="did you mean Persuasion"):
        list(Source(place="austen/Persuation").documents())
    (tmp_path / "b.pdf").write_text("x")
    with pytest.raises(UsageError, match=r"cannot read documents from \.pdf"):
        list(Source(place=str(tmp_path / "b.pdf")).documents())
    (tmp_path / "c.parquet").write_text("x")
    with pytest.raises(DamagedFile, match="no Parquet file"):
        list(Source(place=str(tmp_path / "c.parquet")).documents())


def test_sentences_end_at_punctuation_but_not_after_a_title():
    told = "Mr. Smith went. He saw J. Jones! “Was it so?” She said no."
    starts = sentence_starts(told)
    assert [told[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)] == [
        "Mr. Smith went.", "He saw J. Jones!", "“Was it so?”", "She said no.",
    ]  # fmt: skip


def test_shards_are_the_same_bytes_whoever_built_them(folder: Path, tokenizer: Tokenizer, monkeypatch):
    monkeypatch.setattr(shards, "CHUNK", 500)
    sources = [Source(place=str(folder / "texts.txt"))]
    for workers in (1, 2):
        shards.build(folder / f"by-{workers}", sources, tokenizer, shards.survey(sources, 0.1), workers=workers)
    one, two = ((folder / f"by-{workers}" / manifest.NAME).read_bytes() for workers in (1, 2))
    assert one == two
    assert manifest.verify(folder / "by-2")


def test_parts_make_no_difference_to_what_is_read(folder: Path, tokenizer: Tokenizer, corpus, monkeypatch):
    monkeypatch.setattr(shards, "PART", 300)
    monkeypatch.setattr(shards, "CHUNK", 200)
    sources = [Source(place=str(folder / "texts.txt"))]
    shards.build(folder / "parts", sources, tokenizer, shards.survey(sources, 0.1))
    many = shards.read(folder / "parts", "train")
    assert len(many.parts) > 3
    for format in ("stream", "full_sentences"):
        a, b = (cut(one, format, shape(tokenizer)) for one in (corpus, many))
        assert len(a) == len(b)
        assert all(np.array_equal(a.row(i)[0], b.row(i)[0]) for i in range(len(a)))


def test_a_document_is_on_one_side_and_so_are_its_copies(tmp_path: Path):
    (tmp_path / "a.txt").write_text("\n\n".join(["Copy of one."] * 5 + [f"Text number {i}." for i in range(45)]))
    split = shards.survey([Source(place=str(tmp_path / "a.txt"))], 0.1)
    sides = [split.side(one) for one in Source(place=str(tmp_path / "a.txt")).documents()]
    assert len(set(sides[:5])) == 1
    assert 5 <= sides.count("validation") <= 9
    with pytest.raises(UsageError, match="cannot be split"):
        shards.survey([Source(place=str(tmp_path / "a.txt"), by="file")], 0.1)
    assert shards.survey([Source(place=str(tmp_path / "a.txt"))], 0).border == -1


@pytest.mark.mechanism("R2")
def test_a_stream_is_every_token_once_with_an_end_after_each_document(corpus, tokenizer: Tokenizer):
    rows = cut(corpus, "stream", shape(tokenizer))
    read = np.concatenate([rows.row(i)[0] for i in range(len(rows))])
    starts = corpus.document_tokens
    whole = np.concatenate([
        part for a, b in itertools.pairwise(starts) for part in (corpus.ids(a, b), [tokenizer.sep_id])
    ])  # fmt: skip
    assert np.array_equal(read, whole[: len(read)])
    assert len(whole) - len(read) < LENGTH
    ahead = cut(corpus, "stream", Shape(length=LENGTH, wrapper=0, end=tokenizer.sep_id or 0, ahead=1))
    assert all(ahead.row(i)[0][-1] == ahead.row(i + 1)[0][0] for i in range(len(ahead) - 1))


@pytest.mark.mechanism("R2")
@pytest.mark.parametrize("format", ["full_sentences", "doc_sentences"])
def test_rows_are_whole_sentences_in_order_and_fit(format, corpus, tokenizer: Tokenizer):
    rows = cut(corpus, format, shape(tokenizer))
    texts = [rows.row(i)[0] for i in range(len(rows))]
    assert max(map(len, texts)) <= LENGTH - 2
    words = np.concatenate([one[one != tokenizer.sep_id] for one in texts])
    assert np.array_equal(words, corpus.ids(0, corpus.tokens))
    crossing = sum(bool((one == tokenizer.sep_id).any()) for one in texts)
    assert (crossing > 5) == (format == "full_sentences")
    whole = np.isin(rows.cuts, corpus.sentence_starts)
    assert whole.mean() > 0.9, "only a sentence longer than a row is cut"


@pytest.mark.mechanism("R2")
@pytest.mark.parametrize("format", ["segment_pair", "sentence_pair"])
def test_pairs_are_neighbours_in_one_document(format, corpus, tokenizer: Tokenizer):
    rows = cut(corpus, format, shape(tokenizer, 2))
    borders = corpus.document_tokens
    for start, middle, end in rows.cuts:
        assert start < middle < end
        assert end - start <= LENGTH - 3
        assert np.searchsorted(borders, start, side="right") == np.searchsorted(borders, end)
    assert len(rows) > 20


@pytest.mark.parametrize("rows", [1, 2, 5, 64, 1000])
def test_a_shuffle_reads_every_row_once_an_epoch_and_needs_no_replay(rows: int):
    order = Shuffle(rows=rows, seed=7)
    three = order(0, 3 * rows)
    assert all(sorted(three[i * rows : (i + 1) * rows]) == list(range(rows)) for i in range(3))
    assert np.array_equal(order(rows + rows // 2, rows), three[rows + rows // 2 :][:rows])


@pytest.mark.parametrize("rows", [64, 1000])
def test_the_orders_of_epochs_are_as_unlike_as_chance_makes_them(rows: int):
    order = Shuffle(rows=rows, seed=7)
    epochs = [order(i * rows, rows) for i in range(200)]
    likeness = [np.corrcoef(a, b)[0, 1] for a, b in zip(epochs, [np.arange(rows), *epochs], strict=False)]
    assert abs(np.mean(likeness)) < 4 / np.sqrt(200 * rows)
    assert 0.8 < np.std(likeness) * np.sqrt(rows) < 1.2
    firsts = np.bincount([epoch[0] * 8 // rows for epoch in epochs], minlength=8)
    assert firsts.min() > 8, "no place of an epoch favours a part of the rows: 25 of 200 are expected"


@pytest.mark.mechanism("R10")
def test_a_step_is_a_pure_function_and_short_rows_come_first(corpus, tokenizer: Tokenizer):
    short = cut(corpus, "full_sentences", Shape(length=12, wrapper=2, end=tokenizer.sep_id or 0))
    long = cut(corpus, "full_sentences", shape(tokenizer))
    phases = (
        Phase(begin=0, end=9, rows=short, batch=4, micro=3), Phase(begin=9, end=12, rows=long, batch=4, micro=3)
    )  # fmt: skip
    dress = Dress(wrapper=tokenizer.wrapper, pad_id=tokenizer.pad_id or 0, segments=True)
    feed = Feed(phases=phases, dress=dress, seed=1)
    pieces = feed(4)
    assert [len(piece["input_ids"]) for piece in pieces] == [3, 1]
    assert all((a["input_ids"] == b["input_ids"]).all() for a, b in zip(pieces, feed(4), strict=True))
    assert feed(8)[0]["input_ids"].shape[1] <= 12 < max(feed(step)[0]["input_ids"].shape[1] for step in range(9, 12))
    ids = pieces[0]["input_ids"]
    assert (ids[:, 0] == tokenizer.cls_id).all()
    assert (ids == tokenizer.sep_id).any(1).all()
