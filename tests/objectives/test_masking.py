"""What is hidden: how much, what, by what, and what never is."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from tests.objectives.corpus import END, FIRST, MASK, PAD, SYMBOLS
from variorum.errors import UsageError
from variorum.objectives.base import IGNORED
from variorum.objectives.masked import MaskedLM
from variorum.objectives.symbols import Symbols, _edges
from variorum.spec.recipe import Masking

WIDE = Symbols(vocab=1000, special=frozenset(range(5)), mask=4, pad=0, end=3)
TEXT = [FIRST, 10, 11, 12, 13, 14, END]
SHORT = [FIRST, 10, 11, END, PAD, PAD, PAD]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def long_rows(rows: int = 400, length: int = 512) -> torch.Tensor:
    return torch.randint(5, 1000, (rows, length), generator=rng(9))


@pytest.mark.case("V038")
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("told", [True, False])
def test_neither_padding_nor_special_tokens_are_ever_chosen(side: str, told: bool) -> None:
    short = SHORT if side == "right" else [*SHORT[4:], *SHORT[:4]]
    ids = torch.tensor([TEXT, short])
    batch = {"input_ids": ids, "attention_mask": (ids != PAD).long()}
    symbols = SYMBOLS
    if told:
        symbols = dataclasses.replace(SYMBOLS, special=frozenset())
        batch["special_tokens_mask"] = torch.isin(ids, torch.tensor([FIRST, END, PAD])).long()
    example = MaskedLM(Masking(rate=1.0), symbols).corrupt(batch, rng())
    assert (example.targets != IGNORED).sum(-1).tolist() == [5, 2]
    wrappers = torch.isin(ids, torch.tensor([FIRST, END, PAD]))
    assert torch.equal(example.inputs["input_ids"][wrappers], ids[wrappers])
    assert set(example.inputs) == {"input_ids", "attention_mask"}


@pytest.mark.case("V038")
@pytest.mark.mechanism("O2")
def test_of_those_chosen_eighty_are_hidden_ten_are_others_ten_stay() -> None:
    ids = long_rows(2700)
    example = MaskedLM(Masking(), WIDE).corrupt({"input_ids": ids}, rng())
    chosen = example.targets != IGNORED
    read, asked = example.inputs["input_ids"][chosen], ids[chosen]
    assert len(read) > 200_000
    assert float((read == 4).double().mean()) == pytest.approx(0.80, abs=0.005)
    assert float((read == asked).double().mean()) == pytest.approx(0.10, abs=0.005)
    assert not ((read < 4) | (read >= 1000)).any()


@pytest.mark.mechanism("O2")
@pytest.mark.parametrize("rate", [0.15, 0.3])
def test_the_share_is_the_rate_whatever_the_length(rate: float) -> None:
    for length in (20, 512):
        ids = torch.randint(5, 1000, (4000, length), generator=rng(1))
        chosen = MaskedLM(Masking(rate=rate), WIDE).corrupt({"input_ids": ids}, rng()).targets != IGNORED
        assert float(chosen.double().mean()) == pytest.approx(rate, rel=0.01)
        assert int(chosen.sum(-1).max() - chosen.sum(-1).min()) <= 1


def test_every_text_is_asked_something_if_it_has_a_word() -> None:
    ids = torch.tensor([[FIRST, 9, END], [FIRST, END, PAD]])
    chosen = MaskedLM(Masking(), SYMBOLS).corrupt({"input_ids": ids}, rng()).targets != IGNORED
    assert chosen.tolist() == [[False, True, False], [False, False, False]]


@pytest.mark.mechanism("O2")
def test_its_statistics_are_those_of_the_published_collator(tmp_path: Path) -> None:
    from transformers import BertTokenizerFast, DataCollatorForLanguageModeling

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(995))]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    collator = DataCollatorForLanguageModeling(BertTokenizerFast(str(tmp_path / "vocab.txt")), seed=0)
    ids = long_rows(300)
    theirs, labels = collator.torch_mask_tokens(ids.clone())
    mine = MaskedLM(Masking(), WIDE).corrupt({"input_ids": ids}, rng())

    def told(read: torch.Tensor, targets: torch.Tensor) -> list[float]:
        chosen = targets != IGNORED
        kinds = (chosen, (read == 4) & chosen, (read == ids) & chosen)
        return [float(kind.double().mean()) for kind in kinds]

    assert told(mine.inputs["input_ids"], mine.targets) == pytest.approx(told(theirs, labels), abs=0.003)


SPELLED = {
    "wordpiece": ["play", "##ing", "##ly", "ball", "##s", "a"],
    "byte_level_bpe": ["play", "ing", "ly", "Ġball", "s", "Ġa"],
    "unigram": ["▁play", "ing", "ly", "▁ball", "s", "▁a"],
    "bpe": ["play", "ing", "ly</w>", "ball", "s</w>", "a</w>"],
    "bytes": ["p", "l", "y", " ", "s", "\n"],
}
WORDS = {"bytes": [0, 0, 0, 1, 1, 2]}


@pytest.mark.mechanism("O2")
@pytest.mark.parametrize("kind", SPELLED)
def test_whole_words_are_hidden_whole_whatever_spells_them(kind: str) -> None:
    begins, ends = _edges(kind, SPELLED[kind])
    symbols = Symbols(vocab=6, mask=0, begins=begins, ends=ends)
    ids = torch.arange(6).expand(2000, -1)
    words = torch.tensor(WORDS.get(kind, [0, 0, 0, 1, 1, 2]))
    assert symbols.words(ids, torch.ones_like(ids, dtype=torch.bool))[0].tolist() == words.tolist()
    masking = Masking(rate=0.5, mask=1.0, random=0.0, unit="word")
    chosen = MaskedLM(masking, symbols).corrupt({"input_ids": ids}, rng()).targets != IGNORED
    for word in range(3):
        own = chosen[:, words == word]
        assert torch.equal(own.all(-1), own.any(-1))
        assert own.any()
    assert float(chosen.double().mean()) == pytest.approx(0.5, abs=0.03)


def test_runs_have_the_mean_length_that_is_asked_for() -> None:
    masking = Masking(mask=1.0, random=0.0, span=3.0)
    chosen = MaskedLM(masking, WIDE).corrupt({"input_ids": long_rows(100)}, rng()).targets != IGNORED
    begins = chosen & ~torch.nn.functional.pad(chosen, (1, 0))[:, :-1]
    assert int(chosen.sum()) / int(begins.sum()) == pytest.approx(3.0, abs=0.05)


@pytest.mark.case("V041")
def test_fresh_masks_differ_each_time_and_fixed_ones_never() -> None:
    row = torch.randint(5, 1000, (40,), generator=rng(3))
    ids = row.expand(64, -1)

    def masks(masking: Masking, seed: int) -> torch.Tensor:
        return MaskedLM(masking, WIDE).corrupt({"input_ids": ids}, rng(seed)).targets != IGNORED

    fresh, again = masks(Masking(), 0), masks(Masking(), 1)
    assert len({tuple(mask) for mask in fresh.tolist()}) > 60
    assert not torch.equal(fresh, again)
    assert torch.equal(fresh, masks(Masking(), 0))
    fixed = [masks(Masking(copies=1), seed) for seed in (0, 1)]
    assert torch.equal(*fixed)
    assert len({tuple(mask) for mask in masks(Masking(copies=10), 0).tolist()}) == 10


def test_a_vocabulary_without_a_mask_token_is_refused() -> None:
    with pytest.raises(UsageError, match="no mask token"):
        MaskedLM(Masking(), Symbols(vocab=9)).corrupt({"input_ids": torch.tensor([[6, 7]])}, rng())


def test_symbols_are_read_from_a_tokenizer(tmp_path: Path) -> None:
    from variorum.text.directory import load_tokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer"}))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    symbols = Symbols.of(load_tokenizer(tmp_path), 10)
    assert (symbols.pad, symbols.mask, symbols.end, symbols.stops) == (0, 4, 3, {7})
    assert symbols.pair == ((2, 0), (None, 0), (3, 0), (None, 1), (3, 1))
    assert symbols.begins is not None
    assert symbols.begins[[5, 6, 7]].tolist() == [True, False, True]
    assert MASK == 3
