"""Texts read damaged and written whole, or the other way about: spans, infilling, sentences."""

from __future__ import annotations

import pytest
import torch

from tests.objectives.corpus import END, FIRST, MASK, SENTINELS, STOP, SYMBOLS
from variorum.errors import UsageError
from variorum.objectives.base import IGNORED
from variorum.objectives.infilling import GapSentences, Infilling, placed, poisson_runs, principal, sentences
from variorum.objectives.rewriting import Rewriting
from variorum.objectives.spans import SpanCorruption, lengths, planned, raw_length, spans_of
from variorum.objectives.symbols import Symbols
from variorum.spec.recipe import Masking
from variorum.text.text_to_text import restored

SPANS = Masking(mask=1.0, random=0.0, span=3.0)
WIDE = Symbols(vocab=32_128, special=frozenset(range(32_000, 32_128)), end=1, pad=0,
               sentinels=tuple(range(32_099, 31_999, -1)))  # fmt: skip


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.case("V043")
@pytest.mark.mechanism("O6")
@pytest.mark.parametrize(
    ("inputs", "raw", "targets", "spans"), [(512, 568, 114, 28), (128, 141, 29, 7), (64, 70, 14, 3)]
)
def test_lengths_are_those_of_the_released_code(inputs: int, raw: int, targets: int, spans: int) -> None:
    assert raw_length(inputs, 0.15, 3.0) == raw
    assert lengths(raw, 0.15, 3.0) == (inputs, targets)
    assert planned(raw, 0.15, 3.0)[1] == spans
    objective = SpanCorruption(SPANS, WIDE)
    assert objective.raw_length(inputs) == raw
    ids = torch.randint(2, 32_000, (8, raw), generator=rng(4))
    example = objective.corrupt({"input_ids": ids}, rng())
    assert example.inputs["input_ids"].shape == (8, inputs)
    assert example.targets.shape == (8, targets)
    assert bool(example.inputs["attention_mask"].all())
    assert bool((example.targets >= 0).all())


@pytest.mark.case("V043")
def test_interleaved_by_their_sentinels_both_parts_are_the_text_padding_id_and_all() -> None:
    ids = torch.randint(2, 32_000, (5, 141), generator=rng(5))
    ids[:, 70] = 0  # a literal padding id is a token like any other
    mask = torch.ones_like(ids)
    mask[1, 100:] = 0
    example = SpanCorruption(SPANS, WIDE).corrupt({"input_ids": ids, "attention_mask": mask}, rng())
    number = {id: at for at, id in enumerate(WIDE.sentinels)}
    for row, real, read, written, kept in zip(
        ids, mask, example.inputs["input_ids"], example.targets, example.inputs["attention_mask"], strict=True
    ):
        left, right = read[kept.bool()].tolist(), written[written >= 0].tolist()
        assert left.pop() == right.pop() == WIDE.end
        assert restored(left, right, number.get) == row[real.bool()].tolist()


@pytest.mark.mechanism("I3")
def test_every_way_to_cut_spans_is_alike_likely() -> None:
    first = [spans_of(8, 0.25, 1.0, generator)[0][0] for generator in map(rng, range(3000))]
    ways = {place: first.count(place) / 3000 for place in range(1, 6)}
    assert ways == pytest.approx(dict.fromkeys(range(1, 6), 0.2), abs=0.03)


def test_sentinels_do_not_run_out_silently() -> None:
    objective = SpanCorruption(SPANS, SYMBOLS)
    fits = int(len(SENTINELS) * 3 / 0.15)
    objective.corrupt({"input_ids": torch.full((1, fits), 10)}, rng())
    with pytest.raises(UsageError, match="more hidden spans than the 6 sentinels"):
        objective.corrupt({"input_ids": torch.full((1, 2 * fits), 10)}, rng())


@pytest.mark.mechanism("O9")
def test_infilling_hides_the_share_in_runs_of_poisson_length_zero_included() -> None:
    runs = [poisson_runs(1000, 0.3, 3.0, rng(seed)) for seed in range(100)]
    assert all(sum(one) == 300 for one in runs)
    drawn = [run for one in runs for run in one[:-1]]
    assert sum(drawn) / len(drawn) == pytest.approx(3.0, abs=0.1)
    assert drawn.count(0) / len(drawn) == pytest.approx(0.0498, abs=0.01)
    made = placed([2, 0], 5, rng())
    assert [item for item in made if isinstance(item, int)] == [
        unit for unit in range(5) if all(unit not in run for run in made if isinstance(run, range))
    ]
    assert sum(isinstance(item, range) for item in made) == 2


@pytest.mark.mechanism("O9")
def test_infilling_reads_one_mask_for_a_span_and_writes_the_whole_text() -> None:
    ids = torch.tensor([[FIRST, *range(10, 30), END]])
    example = Infilling(Masking(rate=0.3, mask=1.0, random=0.0, span=3.0), SYMBOLS).corrupt({"input_ids": ids}, rng(1))
    read = example.inputs["input_ids"][0].tolist()
    assert example.targets.tolist() == ids.tolist()
    assert (read[0], read[-1]) == (FIRST, END)
    words = [id for id in read[1:-1] if id != MASK]
    assert len(words) == 20 - 6
    assert words == sorted(words)
    assert MASK in read


def test_infilling_whole_words_never_splits_one() -> None:
    begins = torch.tensor([id % 2 == 0 for id in range(50)])
    symbols = Symbols(vocab=50, special=SYMBOLS.special, mask=MASK, pad=0, begins=begins)
    ids = torch.tensor([[FIRST, *range(10, 30), END]])
    masking = Masking(rate=0.35, mask=1.0, random=0.0, span=3.5, unit="word")
    for seed in range(20):
        read = Infilling(masking, symbols).corrupt({"input_ids": ids}, rng(seed)).inputs["input_ids"][0].tolist()
        assert all((id + 1 in read) == (id in read) for id in range(10, 30, 2))


@pytest.mark.mechanism("O9")
def test_sentences_change_places_whole() -> None:
    body = [10, 11, STOP, 12, STOP, 13, 14, 15, STOP]
    assert sentences(body, SYMBOLS.stops) == [[10, 11, STOP], [12, STOP], [13, 14, 15, STOP]]
    ids = torch.tensor([[FIRST, *body, END]] * 50)
    masking = Masking(rate=0.01, mask=1.0, random=0.0, span=1.0)
    example = Infilling(masking, SYMBOLS, permuted=1.0).corrupt({"input_ids": ids}, rng())
    orders = {tuple(id for id in row if id in (10, 12, 13)) for row in example.inputs["input_ids"].tolist()}
    assert len(orders) > 4
    assert example.targets[:, : ids.shape[1]].tolist() == ids.tolist()


@pytest.mark.mechanism("O9")
def test_the_sentence_most_like_the_rest_is_the_one_to_write() -> None:
    parts = [[10, 11, STOP], [20, 21, STOP], [10, 11, 20, STOP]]
    # F1 against the rest: 2·3/(3+7), 2·2/(3+7), 2·4/(4+6) of shared tokens.
    assert principal(parts, 1) == [2]
    assert principal(parts, 2) == [0, 2]
    ids = torch.tensor([[FIRST, *(token for part in parts for token in part), END]])
    example = GapSentences(Masking(rate=0.3, mask=1.0, random=0.0), SYMBOLS).corrupt({"input_ids": ids}, rng())
    assert example.inputs["input_ids"].tolist() == [[FIRST, 10, 11, STOP, 20, 21, STOP, MASK, END]]
    assert example.targets.tolist() == [[10, 11, 20, STOP, END]]


@pytest.mark.mechanism("O13")
@pytest.mark.mechanism("O11")
def test_what_is_to_be_written_is_apart_from_what_is_read() -> None:
    batch = {"input_ids": torch.tensor([[8, 9]]), "labels": torch.tensor([[7, 2, 0]])}
    example = Rewriting().corrupt({**batch, "labels_mask": torch.tensor([[1, 1, 0]])}, rng())
    assert example.targets.tolist() == [[7, 2, IGNORED]]
    assert set(example.inputs) == {"input_ids"}


@pytest.mark.mechanism("O13")
def test_smoothed_labels_cost_what_the_paper_says() -> None:
    from tests.tiny_specs import made, tiny

    spec = tiny("transformer")
    assert spec.objective.label_smoothing == 0.1
    model = made(spec, "seq2seq_lm").train()
    for module in model.modules():
        if hasattr(module, "dropout") and isinstance(module.dropout, float):
            module.dropout = 0.0
    model.encoder.input.spec = spec.set({"architecture.encoder.input.dropout": 0.0}).architecture.encoder.input
    model.decoder.input.spec = spec.set({"architecture.decoder.input.dropout": 0.0}).architecture.decoder.input
    ids, labels = torch.tensor([[8, 9, 10]]), torch.tensor([[7, 12]])
    loss = Rewriting().loss(model, Rewriting().corrupt({"input_ids": ids, "labels": labels}, rng()))
    logits = model(ids, decoder_input_ids=torch.tensor([[0, 7]])).logits[0]
    right = torch.nn.functional.cross_entropy(logits, labels[0], reduction="sum", label_smoothing=0.1)
    assert loss.total.item() == pytest.approx(right.item(), rel=1e-12)
