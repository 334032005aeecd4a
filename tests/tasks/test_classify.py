"""A classifier: what it learns, how it comes back, and that transformers reads it to the same probabilities."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from tests.cli import models
from tests.tasks import writers
from variorum import tasks
from variorum.errors import DamagedFile, NotFound, RunFailed, UsageError
from variorum.tasks.classify import Classifier

ANIMALS = {"zebra": "stripes graze", "Apple": "fruit ripens", "mango": "sweet stone", "10": "ten fingers", "9": "nine"}
QUICK = {"epochs": 4, "batch_size": 8, "learning_rate": 1e-3, "max_length": 16}


def rows(count: int = 60, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts that their label follows from."""
    draw = random.Random(seed)
    labels = [draw.choice(list(ANIMALS)) for _ in range(count)]
    return [f"{ANIMALS[label]} number {draw.randrange(9)}" for label in labels], labels


@pytest.fixture(scope="module")
def fitted() -> Classifier:
    return Classifier("nano", **QUICK, calibrate=True, thresholds="macro_f1").fit(*rows(160))


@pytest.mark.mechanism("H1")
def test_it_learns_what_can_be_learned(fitted: Classifier) -> None:
    texts, labels = rows(50, seed=1)
    assert fitted.score(texts, labels) >= 0.95
    figures = fitted.evaluate(texts, labels)
    assert next(iter(figures)) == "macro_f1"
    assert figures["macro_f1"] >= 0.95
    assert figures["unseen"] == figures["abstained"] == 0


@pytest.mark.case("V055")
def test_names_come_back_in_their_order_from_disk(fitted: Classifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_bytes())
    assert fitted.classes_.tolist() == ["10", "9", "Apple", "mango", "zebra"]
    assert [config["id2label"][str(i)] for i in range(5)] == fitted.classes_.tolist()
    again = tasks.load(tmp_path / "model")
    texts, _ = rows(40, seed=2)
    assert (again.predict(texts) == fitted.predict(texts)).all()
    assert (again.predict_proba(texts) == fitted.predict_proba(texts)).all()
    assert again.decision_ == fitted.decision_
    assert again.history_ == fitted.history_


@pytest.mark.case("V055")
def test_a_head_that_disagrees_with_the_stored_labels_is_refused(fitted: Classifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    state = json.loads((tmp_path / "model" / "variorum.json").read_bytes())
    state["learned"]["classes"] = state["learned"]["classes"][:-1]
    from variorum.tasks.registry import task

    with pytest.raises(DamagedFile, match="names 5 labels, not these 4"):
        task("classify").restored(tmp_path / "model", state)


@pytest.mark.case("V055")
@pytest.mark.parametrize("hash_seed", ["0", "77"])
def test_the_stored_order_depends_neither_on_hashing_nor_on_rows(hash_seed: str) -> None:
    code = (
        "from variorum.tasks.targets import OneOf; import random; y=['zebra','Apple','mango','10','9']*3;"
        f"random.Random({hash_seed}).shuffle(y); print(OneOf.of(y).classes.tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['10', '9', 'Apple', 'mango', 'zebra']"


@pytest.mark.mechanism("H1")
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "bart"])
def test_transformers_gives_the_same_probabilities(name: str, tmp_path: Path) -> None:
    """An encoder; decoders from their last token, one with a vocabulary head of its own that is left behind; and
    encoder-decoders from the token that ends what is read."""
    texts, labels = rows(24)
    start = writers.small(tmp_path / "start", name, texts) if name in ("t5", "bart") else getattr(models, name)(
        tmp_path / "start"
    )  # fmt: skip
    model = Classifier(str(start), epochs=1, learning_rate=1e-3, max_length=16)
    model.fit(texts, labels).save(tmp_path / "tuned")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned", dtype=torch.float32).eval()
    assert [theirs.config.id2label[i] for i in range(5)] == model.classes_.tolist()
    mine = model.predict_proba(texts)
    for text, row in zip(texts, mine, strict=True):
        ids = torch.tensor([model.model_.tokenizer.encode(text, max_length=16).ids])
        with torch.no_grad():
            right = theirs(input_ids=ids).logits.double().softmax(-1)[0].numpy()
        assert np.abs(row - right).max() <= 1e-6


def test_transformers_own_tokenizer_reads_the_same(fitted: Classifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "tuned")
    theirs, texts = AutoTokenizer.from_pretrained(tmp_path / "tuned"), rows(10, seed=4)[0]
    assert theirs(texts)["input_ids"] == [fitted.model_.tokenizer.encode(text).ids for text in texts]


def test_a_tuned_model_learns_on_from_its_own_head(fitted: Classifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "tuned")
    texts, labels = rows(40)
    on = Classifier(str(tmp_path / "tuned"), epochs=1, learning_rate=1e-6, validation=0).fit(texts, labels)
    assert on.score(texts, labels) >= 0.95
    others = Classifier(str(tmp_path / "tuned"), epochs=1, learning_rate=1e-6, validation=0)
    others.fit(texts, ["short" if len(text) < 18 else "long" for text in texts])
    assert others.model_.label_names == ("long", "short")
    assert set(others.model_.origin.fresh) == {
        "heads.sequence_classification.project.weight", "heads.sequence_classification.project.bias",
    }  # fmt: skip


def test_equal_seeds_give_equal_models_and_others_do_not() -> None:
    texts, labels = rows(30)
    one, two, three = (
        Classifier("nano", epochs=1, random_state=seed).fit(texts, labels).predict_proba(texts) for seed in (3, 3, 4)
    )
    assert (one == two).all()
    assert np.abs(one - three).max() > 1e-4


ABOUT = {"colour": ["red", "blue"], "animal": ["fox", "owl"], "place": ["rome", "oslo"]}


def several(count: int, seed: int) -> tuple[list[str], list[str]]:
    """Texts that say any of three kinds of thing, or none, the last kind rarely."""
    draw = random.Random(seed)
    sets = [[kind for kind, share in zip(ABOUT, (0.5, 0.4, 0.2), strict=True) if draw.random() < share]
            for _ in range(count)]  # fmt: skip
    texts = []
    for kinds in sets:
        words = [draw.choice(ABOUT[kind]) for kind in kinds] + draw.choices(["it", "was", "then", "so"], k=2)
        draw.shuffle(words)
        texts.append(" ".join(words))
    return texts, ["|".join(kinds) for kinds in sets]


@pytest.mark.mechanism("H1")
def test_any_of_several_labels_are_learned_each_with_a_border_of_its_own_that_is_saved(tmp_path: Path) -> None:
    texts, joined = several(360, 0)
    new, right = several(200, 1)
    how = {**QUICK, "learning_rate": 2e-3, "validation": 0.2}
    model = Classifier("nano", separator="|", thresholds="macro_f1", calibrate=True, **how).fit(texts, joined)
    assert model.classes_.tolist() == ["animal", "colour", "place"]
    truth = model._targets.matrix(right)

    def micro(given: np.ndarray) -> float:
        return float(f1_score(truth, given, average="micro", zero_division=0))

    given = model._targets.matrix(model.predict(new))
    constant = max(micro(np.tile(row, (len(new), 1))) for row in itertools.product((0, 1), repeat=3))
    assert micro(given) > 0.95 > constant + 0.2
    assert min(f1_score(truth, given, average=None)) > 0.9
    assert len(set(model.decision_.thresholds)) == 3
    model.save(tmp_path / "model")
    again = tasks.load(tmp_path / "model")
    assert again.decision_ == model.decision_
    assert again.predict(new).tolist() == model.predict(new).tolist()
    assert (again.predict_proba(new) == model.predict_proba(new)).all()
    once = Classifier("nano", epochs=1, max_length=16).fit(texts, model._targets.matrix(joined).astype(int))
    assert once.predict(texts[:20]).shape == (20, 3)


def test_labels_that_look_like_nothing_are_text() -> None:
    texts = [f"{word} case {i}" for i in range(12) for word in ("empty", "missing", "plain")]
    labels = ["null", "NA", "None"] * 12
    model = Classifier("nano", epochs=1).fit(texts, labels)
    assert model.classes_.tolist() == ["NA", "None", "null"]


@pytest.mark.parametrize("long", ["word " * 200_000, ""])
def test_a_text_of_a_megabyte_and_an_empty_one_get_an_answer(fitted: Classifier, long: str) -> None:
    answers = fitted.answers(["stripes graze", long, "fruit ripens"])
    assert [one["label"] for one in answers][::2] == ["zebra", "Apple"]
    assert 0 < answers[1]["confidence"] <= 1


def test_unknown_labels_count_as_wrong_and_are_told_apart(fitted: Classifier) -> None:
    texts, labels = rows(20, seed=5)
    figures = fitted.evaluate([*texts, "stripes graze"], [*labels, "horse"])
    assert figures["unseen"] == 1
    assert figures["accuracy"] == pytest.approx(20 / 21)
    assert figures["macro_f1"] < 0.9


def test_rare_classes_are_read_again_and_weigh_more() -> None:
    texts, labels = ["common"] * 40 + ["seldom"] * 4, ["a"] * 40 + ["b"] * 4
    plain = Classifier("nano", validation=0, epochs=1)
    assert plain.fit(texts, labels).history_.examples == 44
    again = Classifier("nano", validation=0, epochs=1, oversample=0.5)
    assert again.fit(texts, labels).history_.examples == 40 + 20
    assert again._targets.weights("balanced", labels)[[0, -1]].tolist() == pytest.approx([44 / 80, 44 / 8])


@pytest.mark.parametrize(
    ("texts", "labels", "says"),
    [
        (["a", "b"], ["x", "x"], "every row has the label 'x'"),
        (["a", 3], ["x", "y"], r"row 2: expected text, got int"),
        (["a", None], ["x", "y"], r"row 2: expected text, got NoneType"),
    ],
)
def test_what_cannot_be_learned_is_refused_in_a_line(texts: list, labels: list, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Classifier("nano").fit(texts, labels)


def test_decisions_want_rows_held_out_and_a_wild_rate_ends_the_run() -> None:
    texts, labels = rows(20)
    with pytest.raises(UsageError, match="no row is held out"):
        Classifier("nano", validation=0, calibrate=True).fit(texts, labels)
    with pytest.raises(RunFailed, match=r"nan|inf"):
        Classifier("nano", epochs=30, learning_rate=1e30, warmup=0).fit(texts, labels)
    with pytest.raises(NotFound):
        Classifier("no/such-model").fit(texts, labels)


def test_it_abstains_on_what_it_is_least_sure_of(fitted: Classifier) -> None:
    draw = random.Random(1)
    texts, labels = rows(300)
    noisy = [draw.choice(list(ANIMALS)) if draw.random() < 0.3 else label for label in labels]
    model = Classifier("nano", budget=0.2, validation=0.3, **QUICK).fit(texts, noisy)
    answers = model.answers(texts)
    left = [one for one in answers if one["abstained"]]
    assert 0 < len(left) < len(answers) / 2
    assert all(one["label"] is None for one in left)
    assert max(one["confidence"] for one in left) < min(o["confidence"] for o in answers if not o["abstained"])
    assert model.evaluate(texts, noisy)["abstained"] == len(left)
    assert all("abstained" not in one for one in fitted.answers(texts[:3]))
