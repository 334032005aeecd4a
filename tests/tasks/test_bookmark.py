"""A fine-tuning that is killed goes on from its last whole epoch, and ends in the bits of one that went straight on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from variorum.errors import UsageError
from variorum.tasks.classify import Classifier
from variorum.tasks.finetuning import _Feed
from variorum.text.corpora import sentiment


def rows() -> tuple[list[str], list[str]]:
    movies, tweets = ([one for one in sentiment() if one.domain == name][:60] for name in ("movie", "tweet"))
    return [one.text for one in (*movies, *tweets)], ["movie"] * 60 + ["tweet"] * 60


def classifier(folder: Path | str, **more: object) -> Classifier:
    return Classifier(epochs=3, learning_rate=1e-3, max_length=16, checkpoints=str(folder), **more)  # type: ignore[arg-type]


@pytest.mark.mechanism("R7", "H6")
@pytest.mark.case("V064")
@pytest.mark.parametrize("adapt", ["full", "lora:rank=2,dropout=0.1"])
def test_killed_in_its_third_epoch_it_ends_in_the_same_bits(adapt: str, tmp_path: Path, monkeypatch) -> None:
    torch.set_num_threads(1)
    right = classifier("", adapt=adapt).fit(*rows())
    child = os.fork()
    if not child:
        real = _Feed.__call__
        monkeypatch.setattr(_Feed, "__call__", lambda feed, step: os._exit(9) if step > 8 else real(feed, step))
        classifier(tmp_path / "kept", adapt=adapt).fit(*rows())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert sorted(one.name for one in (tmp_path / "kept" / "seed-0").iterdir()) == ["step-00000004", "step-00000008"]
    read: list[int] = []
    real = _Feed.__call__
    monkeypatch.setattr(_Feed, "__call__", lambda feed, step: read.append(step) or real(feed, step))
    found = classifier(tmp_path / "kept", adapt=adapt).fit(*rows())
    assert read == [8, 9, 10, 11]
    assert all(map(torch.equal, right.model_.parameters(), found.model_.parameters()))
    assert [vars(one) for one in right.history_.epochs] == [vars(one) for one in found.history_.epochs]
    assert right.history_.best == found.history_.best


def test_a_folder_of_other_rows_or_settings_is_refused_and_a_finished_one_reads_nothing(tmp_path: Path) -> None:
    texts, labels = rows()
    first = classifier(tmp_path / "kept").fit(texts, labels)
    with pytest.raises(UsageError, match="other rows or settings"):
        classifier(tmp_path / "kept", weight_decay=0.5).fit(texts, labels)
    with pytest.raises(UsageError, match="other rows or settings"):
        classifier(tmp_path / "kept").fit(texts, labels[::-1])
    again = classifier(tmp_path / "kept").fit(texts, labels)
    assert all(map(torch.equal, first.model_.parameters(), again.model_.parameters()))
