"""Encoder-decoders write what the published classes write, greedily, from their own start to their own end."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import variorum
from tests.parity import oracle
from tests.parity.case import materialise
from tests.parity.tiny import named
from variorum.errors import UsageError
from variorum.inference.generate import generate
from variorum.inference.habits import end_ids, forced
from variorum.inference.strategy import Forced

NEW = 12
#: name, what the published files say beside the model's shape, and where they say it
SAID = [
    ("t5", {}, "config"),
    ("mt5", {}, "config"),
    ("byt5", {}, "config"),
    ("bart", {}, "config"),
    ("bart", {"forced_bos_token_id": 7}, "config"),
    ("bart", {"forced_bos_token_id": 7, "forced_eos_token_id": 2, "decoder_start_token_id": 2}, "generation"),
    ("pegasus", {}, "config"),
    ("mbart", {"decoder_start_token_id": 44}, "config"),
    ("mbart", {"decoder_start_token_id": 2, "forced_bos_token_id": 44}, "generation"),
]
IDS = [f"{name}-{place}-{'-'.join(said) or 'plain'}" for name, said, place in SAID]


def published(name: str, said: dict[str, Any], place: str, directory: Path) -> Path:
    case = named(f"{name}/seq2seq_lm")
    if place == "config":
        tiny = dataclasses.replace(case.tiny, config={**case.tiny.config, **said})
        case = dataclasses.replace(case, tiny=tiny)
    root = materialise(case, directory)
    (root / "generation_config.json").unlink(missing_ok=True)
    if place == "generation":
        (root / "generation_config.json").write_text(json.dumps({"eos_token_id": 2, "pad_token_id": 1, **said}))
    return root


@pytest.mark.mechanism("G3", "K7")
@pytest.mark.case("V020")
@pytest.mark.parametrize(("name", "said", "place"), SAID, ids=IDS)
def test_what_is_written_is_what_the_oracle_writes(name: str, said: dict[str, Any], place: str, tmp_path: Path) -> None:
    root = published(name, said, place, tmp_path)
    theirs, ours = oracle.load32(root, named(f"{name}/seq2seq_lm").oracle), variorum.load(root)
    sources = named(f"{name}/seq2seq_lm").material.sequences((15, 9), "written")
    fixed, ends = forced(ours), end_ids(ours)
    rows = generate(ours, [row.tolist() for row in sources], max_new_tokens=NEW, end_ids=ends, fixed=fixed)
    again = generate(
        ours, [row.tolist() for row in sources], max_new_tokens=NEW, end_ids=ends, fixed=fixed, use_cache=False
    )
    for source, row, other in zip(sources, rows, again, strict=True):
        with torch.no_grad():
            right = theirs.generate(source[None], max_new_tokens=NEW, do_sample=False, num_beams=1)[0].tolist()
        start = fixed.start if fixed.start is not None else ours.spec.architecture.main.input.start_id
        assert [start, *row.ids] == right
        assert row.ids == other.ids


@pytest.mark.mechanism("G3")
def test_a_row_that_has_no_room_left_is_ended_and_one_that_ended_is_not() -> None:
    from tests.tiny_specs import made

    model = made("bart", "seq2seq_lm")
    free = generate(model, [[11, 12, 13]], max_new_tokens=6)[0].ids
    (row,) = generate(model, [[11, 12, 13]], max_new_tokens=6, fixed=Forced(first=9, last=40))
    assert row.ids[0] == 9 and row.ids[-1] == 40 and len(row.ids) == 6
    end = free[2]
    (ended,) = generate(model, [[11, 12, 13]], max_new_tokens=6, end_ids=[end], fixed=Forced(last=40))
    assert ended.ids == free[: free.index(end) + 1] and ended.stopped


@pytest.mark.mechanism("G3")
def test_a_model_of_many_languages_asks_which_one_to_write(tmp_path: Path) -> None:
    model = variorum.load(published("mbart", {}, "config", tmp_path))
    for call in (lambda: forced(model), lambda: model.generate([[7, 8, 2, 5]])):
        with pytest.raises(UsageError, match="has to be told the language to write in") as error:
            call()
        assert error.value.exit_code == 2

    class Codes:
        eos_id = 2

        def token_to_id(self, name: str) -> int | None:
            return {"de_DE": 44, "fr_XX": 45}.get(name)

    model.tokenizer = Codes()
    assert forced(model, "de_DE") == Forced(start=44, last=2)
    with pytest.raises(UsageError, match="no token 'German'"):
        forced(model, "German")
    german, french = (model.generate([[7, 8, 2, 5]], language=code, max_new_tokens=4) for code in ("de_DE", "fr_XX"))
    assert german != french
