"""Training: the same bits twice, streams that do not touch, means over targets, and a stop when it is not finite."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from variorum.errors import RunFailed, UsageError
from variorum.objectives.base import Corrupted, LossSum, Objective
from variorum.objectives.causal import Causal
from variorum.training.evaluate import bits_per_byte, scoring
from variorum.training.loop import train
from variorum.training.optimiser import Optimisation, adamw
from variorum.training.streams import DataOrder, stream, stream_seed

KNOWN = 7159696962517958688
SETTINGS = Optimisation(steps=6, rate=1e-2, warmup=2)


class Bigram(torch.nn.Module):
    """Scores of the next token from this one alone, with dropout so that randomness shows."""

    def __init__(self, vocab: int = 11, dropout: float = 0.2) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn((vocab, vocab), generator=torch.Generator().manual_seed(0)))
        self.bias = torch.nn.Parameter(torch.zeros(vocab))
        self.dropout = torch.nn.Dropout(dropout)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        targets: torch.Tensor | None = None,
    ):
        scores = self.dropout(self.table[input_ids] + self.bias)

        class Output:
            logits = scores
            loss = None if targets is None else cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="sum")

        return Output


def _rows(count: int = 40, length: int = 9) -> torch.Tensor:
    return torch.randint(0, 11, (count, length), generator=torch.Generator().manual_seed(5))


def _run(seed: int = 3, settings: Optimisation = SETTINGS, **more):
    model, rows = Bigram(), _rows()
    order = DataOrder(rows=len(rows), batch=8, seed=seed)
    log = train(model, Causal(), lambda step: [{"input_ids": rows[order.step(step)]}], settings, seed=seed, **more)
    return model, log


@pytest.mark.mechanism("R7")
def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    (first, log), (second, again), (_, other) = _run(), _run(), _run(seed=4)
    assert torch.equal(first.table, second.table)
    assert [record.loss for record in log] == [record.loss for record in again]
    assert log[-1].loss != other[-1].loss


def test_training_leaves_the_callers_random_state_alone():
    torch.manual_seed(9)
    before = torch.get_rng_state()
    _run()
    assert torch.equal(torch.get_rng_state(), before)


def test_scoring_between_steps_does_not_change_the_run():
    rows = _rows()
    model, order = Bigram(), DataOrder(rows=40, batch=8, seed=3)

    def look(record) -> None:
        with scoring(model):
            model(rows)

    watched = train(
        model, Causal(), lambda step: [{"input_ids": rows[order.step(step)]}], SETTINGS, seed=3, after_step=look
    )
    assert [record.loss for record in watched] == [record.loss for record in _run()[1]]
    assert model.training


def test_a_measured_start_takes_the_first_steps_of_the_whole_run():
    whole, start = _run()[1], _run(steps=2)[1]
    assert [(r.loss, r.rate) for r in start] == [(r.loss, r.rate) for r in whole[:2]]


@pytest.mark.case("V048")
def test_accumulated_gradients_are_those_of_one_batch_however_ragged_the_pieces():
    rows = _rows(6, 7)
    mask = torch.ones_like(rows)
    mask[:2, 3:] = 0  # two short rows in one piece, four full ones in the other
    whole = {"input_ids": rows, "attention_mask": mask}
    pieces = [{k: v[:2] for k, v in whole.items()}, {k: v[2:] for k, v in whole.items()}]
    one, many = Bigram(dropout=0.0), Bigram(dropout=0.0)
    settings = Optimisation(steps=1, rate=1e-2, warmup=0)
    (a,) = train(one, Causal(), lambda step: [whole], settings, seed=0)
    (b,) = train(many, Causal(), lambda step: pieces, settings, seed=0)
    assert a.targets == b.targets == 2 * 2 + 4 * 6
    assert a.loss == pytest.approx(b.loss, rel=1e-6)
    assert a.norm == pytest.approx(b.norm, rel=1e-6)


@pytest.mark.case("V048")
def test_the_loss_of_two_pieces_weighs_targets_not_pieces():
    class Told(Objective):
        """A loss of 1 on two targets, then of 3 on eight: the published example, 26/10."""

        name, requires = "told", ()

        def corrupt(self, batch, rng):
            return Corrupted(inputs={}, targets=torch.zeros(int(batch["count"]), dtype=torch.long))

        def loss(self, model, example):
            count = len(example.targets)
            return LossSum(total=model.bias.sum() * 0 + (2.0 if count == 2 else 24.0), count=count)

    pieces = [{"count": torch.tensor(2)}, {"count": torch.tensor(8)}]
    (record,) = train(Bigram(), Told(), lambda step: pieces, Optimisation(steps=1, rate=1e-3, warmup=0), seed=0)
    assert record.loss == pytest.approx(2.6)


def test_a_loss_that_is_not_finite_stops_before_the_weights_are_touched():
    model, rows = Bigram(dropout=0.0), _rows()
    healthy: list[torch.Tensor] = []

    def poison(record) -> None:
        if record.step == 1:
            healthy.append(model.table.detach().clone())
            model.bias.data[0] = float("nan")

    with pytest.raises(RunFailed, match="step 2: loss nan") as caught:
        train(model, Causal(), lambda step: [{"input_ids": rows[:8]}], SETTINGS, seed=0, after_step=poison)
    assert caught.value.exit_code == 1
    assert torch.equal(model.table, healthy[0])


def test_each_epoch_reads_every_row_once_in_an_order_of_its_own():
    order = DataOrder(rows=10, batch=4, seed=1)
    read = torch.cat([order.step(step) for step in range(5)])
    assert sorted(read[:10].tolist()) == sorted(read[10:].tolist()) == list(range(10))
    assert read[:10].tolist() != read[10:].tolist()


def test_the_data_order_of_a_step_needs_no_step_before_it():
    order = DataOrder(rows=10, batch=4, seed=1)
    alone = order.step(7)
    assert torch.equal(alone, [order.step(step) for step in range(8)][7])


def test_too_few_rows_for_a_batch_are_refused():
    with pytest.raises(UsageError, match="3 rows cannot fill a batch of 4"):
        DataOrder(rows=3, batch=4, seed=0)


def test_streams_of_one_seed_differ_by_name_and_are_the_same_on_every_machine():
    assert stream_seed(0, "data order") == KNOWN
    draws = {name: torch.rand(3, generator=stream(0, name)).tolist() for name in ("data order", "dropout")}
    assert draws["data order"] != draws["dropout"]
    assert draws["dropout"] == torch.rand(3, generator=stream(0, "dropout")).tolist()


def test_the_rate_rises_to_its_peak_and_falls_to_its_floor():
    settings = Optimisation(steps=100, rate=1.0, warmup=10, decay="linear", floor=0.1)
    factors = [settings.factor(step) for step in range(100)]
    assert factors[0] == pytest.approx(1 / 11)
    assert max(factors) == factors[10] == 1.0
    assert factors == sorted(factors[:10]) + sorted(factors[10:], reverse=True)
    assert 0.1 < factors[-1] < 0.12
    cosine = Optimisation(steps=100, rate=1.0, warmup=10, decay="cosine", floor=0.0)
    assert cosine.factor(55) == pytest.approx(0.5)
    assert Optimisation(steps=9, rate=1.0, warmup=3, decay="constant").factor(8) == 1.0


def test_a_warm_up_longer_than_the_run_is_refused():
    with pytest.raises(UsageError, match="does not fit 5 steps"):
        Optimisation(steps=5, rate=1.0, warmup=5)


def test_vectors_are_not_decayed_and_shared_tables_are_stepped_once():
    model = Bigram()
    model.same = model.table
    groups = adamw(model, SETTINGS).param_groups
    assert [(len(g["params"]), g["weight_decay"]) for g in groups] == [(1, 0.1), (1, 0.0)]


def test_bits_per_byte_of_a_uniform_model_are_the_bits_of_its_tokens_over_their_bytes():
    class Uniform(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor):
            class Output:
                logits = torch.zeros((*input_ids.shape, 8))

            return Output

    windows = torch.tensor([[0, 1, 2, 3], [0, 3, 3, 3], [0, 1, 1, 1]])
    size = torch.tensor([1, 1, 2, 4, 1, 1, 1, 1])
    got = bits_per_byte(Uniform(), windows, torch.tensor([0, 0, 1]), size, batch=2)
    # log2(8) = 3 bits a token: document 0 has 6 tokens on 7 + 12 bytes, document 1 has 3 on 3
    assert got.tolist() == pytest.approx([18 / 19, 9 / 3])
