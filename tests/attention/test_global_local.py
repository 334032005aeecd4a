"""Longformer's attention: what is local and what is global, and windows computed in tiles that are never T × T."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.tiny_specs import gap, made, tiny, words
from variorum.attention import bands
from variorum.checks.counting import largest
from variorum.errors import UsageError
from variorum.model import Model
from variorum.parts.where import Where, order_from_mask
from variorum.spec.positions import Alibi, RelativeBuckets, Rotary

E = "architecture.encoder"
LENGTH = 203  # four tiles, the last one short


def longformer(head: str | None = None, **values: object) -> Model:
    window = {f"{E}.block.attention.window": 8, f"{E}.input.positions.rows": 5000, f"{E}.depth": 2}
    return made(tiny("longformer", window | {f"{E}.{path}": value for path, value in values.items()}), head)


def masks(kind: str) -> Tensor | None:
    """Two rows, the second of which is shorter, or has holes."""
    if kind == "none":
        return None
    mask = torch.ones(2, LENGTH, dtype=torch.long)
    mask[1, slice(150, None) if kind == "right" else slice(0, 60)] = 0
    if kind == "holes":
        mask[1, 80:130:3] = 0
    return mask


def states(model: Model, ids: Tensor, backend: str, **given: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Hidden states and all gradients of a fixed projection of the real ones."""
    model.backend = backend
    model.zero_grad(set_to_none=True)
    out = model(ids, **given).last_hidden_state
    real = given.get("attention_mask")
    out = out if real is None else out * real[..., None]
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    return out.detach(), {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def agree(model: Model, ids: Tensor, **given: Any) -> None:
    right, right_gradients = states(model, ids, "eager", **given)
    for backend in ("auto", "sdpa"):
        ours, gradients = states(model, ids, backend, **given)
        assert gap(ours, right) < 1e-12
        largest = max(float(value.abs().max()) for value in right_gradients.values())
        for name, value in right_gradients.items():
            mine = gradients.get(name, torch.zeros_like(value))
            assert gap(mine, value) < 1e-12 * max(largest, 1), name


@pytest.mark.mechanism("A10", "A9")
@pytest.mark.parametrize("padding", ["none", "right", "left", "holes"])
@pytest.mark.parametrize("everywhere", [(), (0,), (0, 61, 140), tuple(range(0, LENGTH, 9))], ids=len)
def test_tiles_give_what_the_definition_over_all_pairs_gives(padding: str, everywhere: tuple[int, ...]) -> None:
    marks = torch.zeros(2, LENGTH, dtype=torch.long)
    marks[0, list(everywhere)] = 1
    marks[1, [at for at in everywhere if at > 70][:2]] = 1  # fewer of them in the second row
    given = {"attention_mask": masks(padding), "global_attention_mask": marks}
    agree(longformer(), words(2, LENGTH), **{name: value for name, value in given.items() if value is not None})


@pytest.mark.mechanism("A10")
@pytest.mark.parametrize(
    "scheme", [Rotary(), Alibi(), RelativeBuckets(buckets=8, max_distance=16)], ids=lambda p: type(p).__name__
)
def test_positions_inside_attention_reach_tiles_and_global_tokens_alike(scheme: object) -> None:
    marks = torch.zeros(2, LENGTH, dtype=torch.long)
    marks[:, [3, 150]] = 1
    agree(longformer(positions=scheme), words(2, LENGTH), attention_mask=masks("left"), global_attention_mask=marks)


@pytest.mark.mechanism("A9")
@pytest.mark.parametrize("name", ["mistral", "modernbert", "gemma-3"])
@pytest.mark.parametrize("padding", ["none", "right", "left", "holes"])
def test_every_windowed_model_may_be_cut_into_tiles(monkeypatch: pytest.MonkeyPatch, name: str, padding: str) -> None:
    cuts = []
    monkeypatch.setattr(bands, "PAYS", 1)
    original = bands._cut
    monkeypatch.setattr(bands, "_cut", lambda *given: cuts.append(given) or original(*given))
    mask = masks(padding)
    agree(made(name), words(2, LENGTH), **({} if mask is None else {"attention_mask": mask}))
    assert cuts


@pytest.mark.mechanism("A10")
def test_a_local_token_sees_its_window_and_the_global_ones_and_a_global_token_sees_all() -> None:
    mask, marks = torch.ones(1, 30, dtype=torch.long), torch.zeros(1, 30, dtype=torch.long)
    mask[0, 26:], marks[0, [2, 20, 28]] = 0, 1  # the last one is padding, so it is not global
    out = longformer()(words(1, 30), attention_mask=mask, global_attention_mask=marks, output_attentions=True)
    for maps in out.attentions:
        assert maps.shape == (1, 4, 30, 30)
        seen = (maps[0] > 0).all(0)
        assert seen[10].nonzero().flatten().tolist() == [2, *range(6, 15), 20]
        assert seen[20].nonzero().flatten().tolist() == list(range(26)) == seen[2].nonzero().flatten().tolist()
        assert gap(maps[0, :, :26].sum(-1), torch.ones(4, 26, dtype=torch.float64)) < 1e-12
        assert not seen[26:].any()


@pytest.mark.mechanism("A10")
@pytest.mark.parametrize("backend", ["eager", "auto"])
def test_only_global_tokens_ask_through_the_second_projections(backend: str) -> None:
    model, ids = longformer(depth=1), words(1, LENGTH)
    model.backend = backend
    marks = torch.zeros(1, LENGTH, dtype=torch.long)
    marks[0, 100] = 1
    before = model(ids, global_attention_mask=marks).last_hidden_state
    for part in ("query", "key", "value"):
        with torch.no_grad():
            model.get_parameter(f"encoder.layers.0.attention.{part}_global.weight").mul_(1.5)
        after = model(ids, global_attention_mask=marks).last_hidden_state
        changed = (after - before).abs().amax(-1)[0] > 1e-9
        assert changed.nonzero().flatten().tolist() == [100]
        before = after
    with torch.no_grad():
        model.get_parameter("encoder.layers.0.attention.key.weight").mul_(1.5)
    changed = (model(ids, global_attention_mask=marks).last_hidden_state - before).abs().amax(-1)[0] > 1e-9
    assert changed.nonzero().flatten().tolist() == [at for at in range(LENGTH) if at != 100]


def room(model: Model, length: int, *, train: bool) -> int:
    """Bytes of the largest tensor of a pass over a text with two global tokens."""
    marks = torch.zeros(1, length, dtype=torch.long)
    marks[0, [0, length // 2]] = 1

    def work() -> None:
        out = model(words(1, length), global_attention_mask=marks).last_hidden_state
        if train:
            out.sum().backward()

    with torch.set_grad_enabled(train):
        return largest(work)


@pytest.mark.mechanism("A9", "A10", "C6")
@pytest.mark.parametrize("train", [False, True])
def test_no_tensor_grows_faster_than_the_text(train: bool) -> None:
    model = longformer()
    sizes = [room(model, length, train=train) for length in (1024, 2048, 4096)]
    assert sizes[1] <= 2 * sizes[0] and sizes[2] <= 2 * sizes[1]
    assert sizes[2] < 4096 * 4096  # bytes: an eighth of one float64 map of one head


@pytest.mark.mechanism("C18", "A9")
def test_twice_the_text_takes_twice_the_time() -> None:
    model = longformer().float()
    seconds = []
    for length in (1200, 4800):
        ids = words(1, length)
        with torch.no_grad():
            model(ids)
            spent = []
            for _ in range(5):
                start = time.process_time()
                model(ids)
                spent.append(time.process_time() - start)
        seconds.append(min(spent))
    assert math.log(seconds[1] / seconds[0], 4) < 1.3


@pytest.mark.mechanism("A10")
def test_each_head_says_which_tokens_are_global_where_nobody_else_does() -> None:
    ids = torch.tensor([[6, 7, 8, 2, 2, 9, 10, 11, 2, 1], [6, 2, 2, 7, 8, 9, 2, 1, 1, 1]])
    mask = ids.ne(1).long()
    wanted = {
        "sequence_classification": [[0], [0]],
        "question_answering": [[0, 1, 2], [0]],
        "multiple_choice": [[5, 6, 7, 8], [3, 4, 5, 6]],
    }
    for head, places in wanted.items():
        model = longformer(head)
        marks = torch.zeros_like(ids)
        for row, at in enumerate(places):
            marks[row, at] = 1
        extra = (slice(None),) if head != "multiple_choice" else (None,)
        left = model(ids[extra], attention_mask=mask[extra]).logits_by_head[head]
        right = model(ids[extra], attention_mask=mask[extra], global_attention_mask=marks[extra]).logits_by_head[head]
        none = model(ids[extra], attention_mask=mask[extra], global_attention_mask=0 * marks[extra])
        assert torch.equal(left, right) and gap(left, none.logits_by_head[head]) > 1e-6
    model = longformer("masked_lm")
    assert torch.equal(model(ids).logits, model(ids, global_attention_mask=torch.zeros_like(ids)).logits)


@pytest.mark.mechanism("A10")
def test_mistakes_about_global_tokens_are_named() -> None:
    ids = words(1, 9)
    with pytest.raises(UsageError, match="bert takes no global_attention_mask"):
        made("bert")(ids, global_attention_mask=torch.ones_like(ids))
    with pytest.raises(UsageError, match=r"a text has no separator, 2; give global_attention_mask"):
        longformer("question_answering")(ids)
    model = longformer("question_answering")
    vectors = model.encoder.input.look(ids)
    with pytest.raises(UsageError, match="separators cannot be found without input_ids"):
        model(inputs_embeds=vectors)
    assert model(inputs_embeds=vectors, global_attention_mask=torch.ones_like(ids)).start_logits.shape == (1, 9)


@pytest.mark.mechanism("A6")
def test_tokens_in_order_need_no_sorting_and_tokens_with_holes_are_sorted() -> None:
    def compact(mask: list[list[int]]) -> Tensor | None:
        order = order_from_mask(torch.tensor(mask), len(mask[0]), torch.device("cpu"))
        return bands._compact(Where(order, order, order, order))

    assert compact([[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]) is None
    holes = compact([[1, 0, 1, 1], [1, 1, 1, 0]])
    assert holes is not None and holes.tolist() == [[0, 2, 3, 1], [0, 1, 2, 3]]


@pytest.mark.mechanism("A10")
def test_texts_laid_end_to_end_have_their_own_global_tokens() -> None:
    model, lengths = longformer("question_answering"), (30, 30, 170)
    texts = [words(1, length, seed=length + number) for number, length in enumerate(lengths)]
    for number, ids in enumerate(texts):
        ids[0, [3 + number, 4 + number, -1]] = 2
    together = model(torch.cat(texts, 1), lengths=lengths).logits.split(list(lengths), 1)
    for ids, logits in zip(texts, together, strict=True):
        assert gap(logits, model(ids).logits) < 1e-12
