"""Recipes as specs, optimisers, schedules, recomputation, bfloat16, held-out intervals, and a run that goes on long."""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.tiny_specs import made, tiny
from variorum.builder import build
from variorum.errors import DamagedFile, UsageError
from variorum.family import find
from variorum.inference.peak import give_back, peak_bytes
from variorum.objectives.causal import Causal
from variorum.spec.rules import check
from variorum.spec.small import SCALES, scaled, worded
from variorum.training.budget import Budget, budget_of
from variorum.training.evaluate import by_frequency, held_out
from variorum.training.loop import Compute, Trainer
from variorum.training.optimiser import Optimisation
from variorum.training.recipes import settle
from variorum.training.whole import Whole
from variorum.training.wishes import Wishes

SETTINGS = Optimisation(steps=40, rate=1e-2, warmup=2)
TRAINED = ("bert", "roberta", "albert", "electra", "deberta", "modernbert", "t5", "gpt2", "llama")


def rows(step: int):
    return [{"input_ids": torch.randint(6, 50, (4, 9), generator=torch.Generator().manual_seed(step))}]


def trainer(settings: Optimisation = SETTINGS, compute: Compute | None = None, spec: str = "gpt2") -> Trainer:
    model = build(tiny(spec), head="causal_lm", seed=1)
    return Trainer(model, Causal(), rows, settings, seed=5, compute=compute or Compute())


def same(a: Trainer, b: Trainer) -> bool:
    one, two = a.state().tensors, b.state().tensors
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.mechanism("R3", "R5")
def test_a_recipe_is_scaled_and_says_where_each_number_comes_from():
    bert = settle(scaled(find("bert"), SCALES["nano"]), published_width=768)
    assert (bert.rate, bert.warmup, bert.decay, bert.clip) == (pytest.approx(6e-4), 0.01, "linear", 1.0)
    assert (bert.batch, bert.length, bert.early, bert.early_length) == (8, 128, 0.9, 32)
    assert bert.why["rate"] == "bert: 0.0001, × 6 for the width"
    asked = settle(find("bert"), Wishes(batch=7, schedule="constant", clip=0.0))
    assert (asked.batch, asked.decay, asked.why["batch"]) == (7, "constant", "as asked")
    assert asked.optimisation(10).clip > 1e6
    t5 = settle(scaled(find("t5"), SCALES["nano"]), published_width=512)
    assert t5.rate == 0.01, "Adafactor's rate is a share of the weights, whatever their number"
    assert settle(find("bert"), published_width=768).batch == 32


def test_each_recipe_differs_from_its_ancestors_as_published():
    found = {name: settle(find(name)) for name in TRAINED}
    assert found["roberta"].format == "full_sentences" and found["roberta"].betas == (0.9, 0.98)
    assert found["albert"].why["kind"] == "albert: lamb" and found["albert"].kind == "adamw"
    assert found["electra"].format == "doc_sentences"
    assert (found["modernbert"].decay, found["modernbert"].early_length) == ("trapezoid", 16)
    assert (found["t5"].kind, found["t5"].decay, found["t5"].clip) == ("adafactor", "inverse_sqrt", 0.0)
    assert found["llama"].floor == 0.1 and found["gpt2"].format == found["llama"].format == "stream"


@pytest.mark.parametrize("name", [*TRAINED, "transformer-xl"])
def test_a_model_made_small_keeps_its_kinds_and_the_rules(name: str):
    spec = worded(scaled(find(name), SCALES["nano"]), vocab=400, pad_id=0, length=64)
    assert check(spec) == []
    assert spec.architecture.vocab == 400
    assert sum(p.numel() for p in build(spec).parameters()) < 2_000_000


@pytest.mark.mechanism("R5")
def test_schedules_have_their_published_shapes():
    root = Optimisation(steps=100, rate=1.0, warmup=10, decay="inverse_sqrt")
    assert root.factor(10) == 1.0 and root.factor(43) == pytest.approx(math.sqrt(11 / 44))
    flat = Optimisation(steps=100, rate=1.0, warmup=10, decay="trapezoid", floor=0.0, cooldown=0.2)
    assert [flat.factor(step) for step in (10, 50, 80)] == [1.0, 1.0, 1.0]
    assert flat.factor(85) == pytest.approx(1 - math.sqrt(5 / 20))


@pytest.mark.mechanism("R5")
@pytest.mark.parametrize("kind", ["adamw", "adafactor", "muon"])
def test_an_optimiser_is_put_back_bit_for_bit(kind):
    settings = dataclasses.replace(SETTINGS, kind=kind)
    straight, first, second = trainer(settings), trainer(settings), trainer(settings)
    losses = [straight.advance().loss for _ in range(6)]
    for _ in range(3):
        first.advance()
    second.restore(first.state())
    assert [second.advance().loss for _ in range(3)] == losses[3:]
    assert same(straight, second)
    assert min(losses[3:]) < losses[0]


def test_a_state_of_another_model_is_refused():
    with pytest.raises(DamagedFile):
        trainer().restore(trainer(spec="llama").state())


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_recomputed_layers_give_the_same_bits(name: str):
    plain, short = trainer(spec=name), trainer(compute=Compute(recompute=True), spec=name)
    assert [plain.advance() for _ in range(3)] == [short.advance() for _ in range(3)]
    assert same(plain, short)


def test_products_in_bfloat16_keep_float32_weights_and_learn():
    half = trainer(compute=Compute(precision="bfloat16"))
    losses = [half.advance().loss for _ in range(3)]
    full = [trainer().advance().loss]
    assert losses[0] != full[0] and losses[0] == pytest.approx(full[0], rel=0.02)
    assert {p.dtype for p in half.model.parameters()} == {torch.float32}


def test_a_held_out_score_is_the_mean_over_targets_and_moves_no_random_stream():
    model = made("gpt2", "causal_lm")
    batches = [rows(step)[0] for step in range(12)]
    before = torch.get_rng_state()
    whole = Whole(Causal(), model, {})
    score = held_out(whole, Causal(), batches, seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert score == held_out(whole, Causal(), batches, seed=1)
    assert score.targets == 12 * 4 * 8
    ids = torch.cat([batch["input_ids"] for batch in batches])
    with torch.no_grad():
        logits = model(ids[:, :-1]).logits
    whole = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    assert score.loss == pytest.approx(float(whole), rel=1e-9)
    assert score.low < score.loss < score.high


def test_a_guess_knows_how_often_each_answer_is_right_and_no_more():
    known, asked = torch.tensor([[5, 6, 5, 6, 5]]), torch.tensor([[5, 6, 6]])
    guess = by_frequency(Causal(), [{"input_ids": known}], [{"input_ids": asked}], seed=1)
    assert guess == pytest.approx(math.log(11 / 3)), "6 was right twice, 5 twice, and 0 to 4 never; each once more"


@pytest.mark.parametrize(
    ("told", "right"),
    [
        ("2000steps", Budget(2000, "steps")), ("1,000 steps", Budget(1000, "steps")), ("90s", Budget(90, "seconds")),
        ("1.5h", Budget(5400, "seconds")), ("10m", Budget(600, "seconds")), ("5Mtokens", Budget(5e6, "tokens")),
    ],
)  # fmt: skip
def test_a_budget_is_steps_tokens_or_time(told: str, right: Budget):
    assert budget_of(told) == right


@pytest.mark.mechanism("R4")
def test_a_budget_becomes_steps():
    assert Budget(60, "seconds").steps(100, 0.5) == 120
    assert Budget(5e3, "tokens").steps(100, 0.5) == 50
    with pytest.raises(UsageError):
        budget_of("ten minutes")


@pytest.mark.nightly
def test_five_thousand_steps_leave_memory_and_files_as_they_were():
    run = trainer(dataclasses.replace(SETTINGS, steps=6000))
    for _ in range(1000):
        run.advance()
    files, memory = len(os.listdir("/proc/self/fd")), peak_bytes()
    for _ in range(5000):
        run.advance()
    assert len(os.listdir("/proc/self/fd")) == files
    assert peak_bytes() - memory < 5 * 2**20, "less than 1 MiB in a thousand steps"


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library gives nothing back")
def test_freed_memory_goes_back_to_the_system():
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    many = [bytearray(100_000) for _ in range(1000)]
    pins = many[::50]  # what is still in use lies between the gaps
    del many
    held = resident()
    give_back()
    assert resident() < held - 50_000_000
    assert len(pins) == 20


EVER_OTHER_LENGTHS = """
import torch
from variorum.inference.peak import forget_shapes, peak_bytes
{call}
def read(rows):
    for n in rows:
        torch.nn.functional.gelu(torch.zeros(n, 64))
read(range(900, 1000))
before = peak_bytes()
read(range(100, 900))
print(peak_bytes() - before)
"""


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN")
def test_rows_of_ever_other_lengths_leave_no_compiled_kernels_behind():
    def grown(call: str) -> int:
        told = [sys.executable, "-c", EVER_OTHER_LENGTHS.format(call=call)]
        others = {name: value for name, value in os.environ.items() if not name.startswith("ONEDNN_")}
        return int(subprocess.run(told, env=others, capture_output=True, check=True).stdout)

    assert grown("forget_shapes()") < 2 * 2**20 < 20 * 2**20 < grown("")
