"""A monitor that is silent while nothing changes, and speaks when something does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2_contingency, ttest_ind

from variorum.errors import DamagedFile, UsageError
from variorum.inference.sentences import recipe_for
from variorum.tasks.baselines.linear import tfidf
from variorum.tasks.classify import Classifier
from variorum.tasks.embed import Embedder
from variorum.tasks.monitor import compare, holm, rehearse, stability
from variorum.tasks.profile import FEWEST, MOST, Profile, Signals
from variorum.tasks.registry import load
from variorum.tasks.signals import signals
from variorum.text.corpora import sentiment

#: Goals: at most so many windows without a change raise an alarm, at least so many with a shift of 20 points do.
FALSE_ALARMS, FOUND = 0.05, 0.95


def drawn(chance: np.random.Generator, count: int, *, mix: tuple[float, ...] = (0.5, 0.3, 0.2)) -> Signals:
    """Items of a simulated model."""
    classes = chance.choice(len(mix), count, p=mix)
    vectors = chance.standard_t(4, (count, 24)) @ np.diag(np.linspace(3, 0.1, 24)) + classes[:, None]
    return Signals(
        kinds={
            "class": [f"c{i}" for i in classes], "language": list(chance.choice(["en", "hi"], count, p=[0.97, 0.03])),
        },
        numbers={
            "confidence": chance.beta(5, 2 + classes), "length": chance.geometric(0.05, count).astype(float),
            "unknown": chance.binomial(20, 0.01, count) / 20,
        },
        vectors=vectors,
    )  # fmt: skip


def test_figures_of_small_tables_worked_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    was, is_ = np.array([49.5, 49.5]), np.array([69.5, 29.5])
    assert stability(was, is_) == pytest.approx(0.2 * np.log(0.7 / 0.5) + -0.2 * np.log(0.3 / 0.5))
    assert stability(was, was) == 0


def test_each_test_is_the_textbook_one() -> None:
    chance = np.random.default_rng(0)
    a, b = chance.normal(0, 1, 80), chance.normal(0.3, 1, 60)
    then = Signals(kinds={"class": ["x"] * 50 + ["y"] * 30}, numbers={"n": a}, vectors=a[:, None])
    now = Signals(kinds={"class": ["x"] * 20 + ["y"] * 40}, numbers={"n": b}, vectors=b[:, None])
    by = {one.signal: one for one in compare(then, now)}
    plain = {
        "class": chi2_contingency([[50, 30], [20, 40]], correction=False).pvalue,
        "vectors": ttest_ind(a, b).pvalue,  # T² of one dimension is t²
    }
    order = {"class": 3, "n": 2, "vectors": 1}  # places in Holm's order
    assert by["class"].p == pytest.approx(plain["class"] * order["class"])
    assert by["vectors"].p == pytest.approx(max(by["n"].p, plain["vectors"]))
    assert by["class"].change == "x 62.5% → 33.3%"


def test_a_kind_that_was_never_seen_is_noticed() -> None:
    then = Signals(kinds={"language": ["en"] * 500}, numbers={"n": np.zeros(500)})
    now = Signals(kinds={"language": ["en"] * 450 + ["hi"] * 50}, numbers={"n": np.zeros(500)})
    found = {one.signal: one for one in compare(then, now)}
    assert found["language"].drifted
    assert not found["n"].drifted
    same = compare(then, then)
    assert [(one.p, one.psi) for one in same] == [(1.0, 0.0)] * 2


@pytest.mark.mechanism("X")
def test_simulated_windows_raise_few_alarms_and_shifted_ones_nearly_always() -> None:
    """Reference and window are drawn anew each time, so that no reference is lucky."""
    chance, alarms, found, powers = np.random.default_rng(0), 0, 0, 0
    for _ in range(200):
        profile = Profile.of(drawn(chance, 1500))
        window = drawn(chance, 500)
        shifted = drawn(chance, 500, mix=(0.3, 0.5, 0.2))
        alarms += any(one.drifted for one in compare(profile.signals, profile.seen(window)))
        changes = compare(profile.signals, profile.seen(shifted))
        found += next(one.drifted for one in changes if one.signal == "class")
        powers += any(one.drifted for one in changes)
    assert alarms <= 200 * FALSE_ALARMS
    assert found >= 200 * FOUND and powers >= 200 * FOUND


@pytest.mark.mechanism("X")
def test_real_windows_raise_few_alarms_and_class_shifts_of_20_points_are_found() -> None:
    snippets = sentiment()[::3]
    order = np.random.default_rng(0).permutation(len(snippets))
    train, rest = ([snippets[i] for i in part] for part in (order[:4000], order[4000:]))
    model = tfidf()
    model.fit([one.text for one in train], [one.domain for one in train])
    chances = model.predict_proba([one.text for one in rest])
    known = model[0].vocabulary_
    words = [one.text.lower().split() for one in rest]
    signals = Signals(
        kinds={"class": [str(model.classes_[i]) for i in chances.argmax(1)]},
        numbers={
            "confidence": chances.max(1), "length": np.array([float(len(one)) for one in words]),
            "unknown": np.array([np.mean([word not in known for word in one]) for one in words]),
        },
    )  # fmt: skip
    found = rehearse(signals, [one.domain for one in rest])
    assert (found.windows, found.size, found.shift) == (200, 500, 0.2)
    assert found.false_alarms <= FALSE_ALARMS
    assert found.found >= FOUND


def test_a_profile_comes_back_from_its_file_as_it_was() -> None:
    chance = np.random.default_rng(0)
    profile = Profile.of(drawn(chance, MOST + 500))
    assert len(profile.signals) == MOST
    again = Profile.from_bytes(profile.to_bytes(), "profile")
    assert again.signals.kinds == profile.signals.kinds
    window = drawn(chance, 300)
    then, now = (compare(one.signals, one.seen(window)) for one in (profile, again))
    assert [one.signal for one in then] == ["class", "language", "confidence", "length", "unknown", "vectors"]
    assert [one.p for one in then] == pytest.approx([one.p for one in now], abs=1e-4)
    summary = again.summary()
    assert summary["items"] == MOST
    assert sum(summary["class"].values()) == pytest.approx(1)
    assert summary["length"]["5%"] <= summary["length"]["50%"] <= summary["length"]["95%"]


def test_nothing_drifts_by_saving_a_model_whose_weights_came_with_a_recipe_for_sentences(tmp_path: Path) -> None:
    texts = [f"{'wave salt ship ' * (i % 9)}{i} tide" for i in range(FEWEST)]
    vectors = Embedder("nano", max_length=8, epochs=1, validation=0.0, pooling="cls")
    vectors.fit([(text, text[::-1]) for text in texts]).save(tmp_path / "vectors")
    assert recipe_for(load(tmp_path / "vectors").model_).longest == 8
    made = Classifier(model=str(tmp_path / "vectors"), max_length=32, epochs=1, validation=0.0)
    made.fit(texts, [str(i % 2) for i in range(FEWEST)]).observe(texts)
    made.save(tmp_path / "made")
    again = load(tmp_path / "made")
    found = compare(again.profile_.signals, again.profile_.seen(signals(again, texts)))
    assert {one.signal for one in found} >= {"vectors", "label", "length"} and max(one.psi for one in found) < 1e-3
    now = again.profile_.seen(signals(again, texts)).vectors
    assert np.abs(now - again.profile_.signals.vectors).max() < 1e-5


def test_a_damaged_profile_is_told() -> None:
    content = Profile.of(drawn(np.random.default_rng(0), 100)).to_bytes()
    for wrong in (b"", content[:40], content[:-9], content.replace(b'"format":"2"', b'"format":"9"'), b"{}" * 50):
        with pytest.raises(DamagedFile, match="file"):
            Profile.from_bytes(wrong, "file")


def test_what_cannot_be_compared_is_refused() -> None:
    chance = np.random.default_rng(0)
    items = drawn(chance, 200)
    with pytest.raises(UsageError, match="few"):
        Profile.of(drawn(chance, FEWEST - 1))
    with pytest.raises(UsageError, match="windows of 500"):
        rehearse(items, items.kinds["class"])
    with pytest.raises(UsageError, match="two classes"):
        rehearse(items, ["one"] * 200, size=50)
    with pytest.raises(UsageError, match="in common"):
        compare(items, Signals(kinds={"other": ["a"] * 9}, numbers={}))
    with pytest.raises(UsageError, match="different numbers"):
        Signals(kinds={"a": ["x"]}, numbers={"b": np.zeros(2)})
    other = Signals(kinds={"class": ["c0"] * 60}, numbers={}, vectors=np.zeros((60, 5)))
    with pytest.raises(UsageError, match="this model"):
        Profile.of(items).seen(other)
