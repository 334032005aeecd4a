"""The engine under every task: every example once an epoch, the best epoch kept, the loss of the whole step."""

from __future__ import annotations

import pytest
import torch

from tests.tiny_specs import tiny
from variorum.builder import build
from variorum.errors import RunFailed, UsageError
from variorum.objectives.labels import Labels
from variorum.tasks.examples import Example, Padded, by_tokens
from variorum.tasks.finetuning import FineTuning, _Feed, fine_tune

HEAD = "sequence_classification"
STILL = {
    "architecture.encoder.block.dropout": 0.0, "architecture.encoder.block.attention.dropout": 0.0,
    "architecture.encoder.input.dropout": 0.0, f"architecture.heads.{HEAD}.dropout": 0.0,
}  # fmt: skip


def examples(count: int) -> list[Example]:
    """The class is whether a text begins with 7; lengths differ."""
    draw = torch.Generator().manual_seed(0)
    made = []
    for i in range(count):
        length = int(torch.randint(2, 9, (), generator=draw))
        ids = torch.randint(8, 50, (length,), generator=draw).tolist()
        made.append(Example(inputs={"input_ids": [7 if i % 2 else 8, *ids]}, target=i % 2))
    return made


def model(seed: int = 0) -> torch.nn.Module:
    return build(tiny("bert", {f"architecture.heads.{HEAD}.labels": 2}), head=HEAD, seed=seed)


def test_every_example_is_read_once_in_each_epoch_and_in_another_order() -> None:
    rows, how = examples(23), FineTuning(epochs=2, batch_size=5, tokens=30)
    seen: list[list[tuple[int, ...]]] = [[], []]

    def collate(piece):  # type: ignore[no-untyped-def]
        here.extend(tuple(one.inputs["input_ids"]) for one in piece)
        return {}

    feed = _Feed(rows, collate, how)
    assert feed.each == 5
    for step in range(10):
        here = seen[step // 5]
        feed(step)
    everything = sorted(tuple(one.inputs["input_ids"]) for one in rows)
    assert sorted(seen[0]) == sorted(seen[1]) == everything
    assert seen[0] != seen[1]


def test_pieces_hold_no_more_padded_tokens_than_they_may() -> None:
    rows = examples(40)
    pieces = by_tokens(rows, 20)
    assert sum(map(len, pieces)) == 40
    assert all(len(piece) * max(map(len, piece)) <= 20 for piece in pieces)


@pytest.mark.case("V048")
def test_how_finely_a_step_is_cut_does_not_show() -> None:
    """Without dropout: one piece a step, or one example a piece."""
    losses = []
    for tokens in (10_000, 1):
        still = build(tiny("bert", STILL | {f"architecture.heads.{HEAD}.labels": 2}), head=HEAD).double()
        found = fine_tune(still, Labels(), examples(24), Padded(), FineTuning(epochs=2, batch_size=8, tokens=tokens))
        losses.append([one.loss for one in found.epochs])
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


def test_the_best_epoch_is_kept_and_waiting_has_an_end() -> None:
    verdicts = iter([0.1, 0.9, 0.5, 0.4, 0.3, 0.2])
    states = []

    def judge(judged: torch.nn.Module) -> float:
        states.append({name: value.clone() for name, value in judged.state_dict().items()})
        return next(verdicts)

    tuned = model()
    how = FineTuning(epochs=6, batch_size=8, learning_rate=1e-3, patience=2)
    found = fine_tune(tuned, Labels(), examples(16), Padded(), how, judge=judge)  # type: ignore[arg-type]
    assert (found.best, found.score, len(found.epochs)) == (2, 0.9, 4)
    assert all(torch.equal(value, states[1][name]) for name, value in tuned.state_dict().items())
    assert not tuned.training


def test_it_learns_and_says_so() -> None:
    said: list[str] = []
    how = FineTuning(epochs=4, batch_size=8, learning_rate=3e-3)
    found = fine_tune(model(), Labels(), examples(64), Padded(), how, say=said.append)  # type: ignore[arg-type]
    assert found.epochs[-1].loss < 0.5 * found.epochs[0].loss
    assert said[0].startswith("epoch 1 of 4: loss ")
    assert found.learned == sum(p.numel() for p in model().parameters())


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing to learn from"):
        fine_tune(model(), Labels(), [], Padded(), FineTuning())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a learning rate of 0"):
        FineTuning(learning_rate=0)
    how = FineTuning(epochs=20, batch_size=8, learning_rate=1e30, warmup=0)
    with pytest.raises(RunFailed):
        fine_tune(model(), Labels(), examples(16), Padded(), how)  # type: ignore[arg-type]


def test_targets_of_every_kind_are_batched() -> None:
    def one(target, weight: float = 1.0) -> Example:  # type: ignore[no-untyped-def]
        return Example(inputs={"input_ids": [5] * (2 if weight == 1 else 3)}, target=target, weight=weight)

    assert Padded()([one(1), one(0)])["labels"].tolist() == [1, 0]
    assert Padded()([one([1, 0]), one([2])])["labels"].tolist() == [[1, 0], [2, -100]]
    assert Padded()([one([1.0, 0.0]), one([0.0, 0.0])])["labels"].dtype == torch.float32
    batch = Padded(pad_id=9)([one(1), one(1, weight=2.0)])
    assert batch["weight"].tolist() == [1, 2]
    assert batch["input_ids"].tolist() == [[5, 5, 9], [5, 5, 5]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert "weight" not in Padded()([one(1), one(1)])
