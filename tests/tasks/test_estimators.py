"""Every estimator keeps scikit-learn's rules, and works where scikit-learn puts it."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as rules
from sklearn.utils.estimator_checks import parametrize_with_checks

from variorum.tasks.classify import Classifier
from variorum.tasks.pairs import PairClassifier, PairRegressor, Regressor
from variorum.tasks.registry import KINDS, task

TEXTS = [f"{word} number {i}" for i in range(12) for word in ("cat purrs", "dog barks")]
LABELS = ["cat", "dog"] * 12
TINY = {"epochs": 6, "batch_size": 4, "learning_rate": 1e-3, "validation": 0, "max_length": 12}


#: What scikit-learn checks without making data. Its other checks make tables of numbers, and it leaves them out itself
#: for estimators whose tags say that they read texts; the tests below ask the same with texts.
WITHOUT_DATA = (
    rules.check_estimator_tags_renamed, rules.check_valid_tag_types, rules.check_estimator_repr,
    rules.check_no_attributes_set_in_init, rules.check_parameters_default_constructible,
    rules.check_get_params_invariance, rules.check_set_params, rules.check_do_not_raise_errors_in_init_or_set_params,
    rules.check_mixin_order,
)  # fmt: skip

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Can't test estimator")
    every = parametrize_with_checks([task(kind)() for kind in KINDS])


@every
def test_scikit_learns_own_checks_hold(estimator: BaseEstimator, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("check", WITHOUT_DATA, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learns_checks_that_make_no_data_hold(kind: str, check: Any) -> None:
    estimator = task(kind)()
    check(type(estimator).__name__, estimator)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_kept_as_they_were_given(kind: str) -> None:
    estimator = task(kind)()
    given = estimator.get_params()
    assert "model" in given
    assert not [name for name in vars(estimator) if name.endswith("_")]
    for name, value in given.items():
        assert getattr(clone(estimator), name) is value or getattr(clone(estimator), name) == value
    assert estimator.set_params(epochs=7).epochs == 7


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_not_fitted_says_so(kind: str, tmp_path: Any) -> None:
    with pytest.raises(NotFittedError):
        task(kind)().save(tmp_path / "nothing")


def test_each_is_what_it_is() -> None:
    assert all(is_classifier(one) for one in (Classifier(), PairClassifier()))
    assert all(is_regressor(one) for one in (Regressor(), PairRegressor()))


def test_fit_gives_itself_and_leaves_what_it_was_given() -> None:
    texts, labels = np.array(TEXTS), np.array(LABELS)
    model = Classifier("nano", **TINY)
    before = model.get_params()
    assert model.fit(texts, labels) is model
    assert model.get_params() == before
    assert (texts == TEXTS).all()
    assert (labels == LABELS).all()
    assert model.predict(texts[:, None]).shape == (24,)
    assert model.predict_proba(texts).shape == (24, 2)
    assert model.predict_proba(texts).sum(1) == pytest.approx(np.ones(24))
    assert (model.classes_[model.predict_proba(texts).argmax(1)] == model.predict(texts)).all()
    assert model.score(texts, labels) == (model.predict(texts) == labels).mean()
    # One text's answer does not depend on which others stand beside it.
    alone = np.concatenate([model.predict_proba([text]) for text in TEXTS[:4]])
    assert np.abs(alone - model.predict_proba(texts)[:4]).max() <= 1e-6


@pytest.mark.parametrize("kinds", [[3, 1], [True, False], [2.0, 1.0]])
def test_labels_keep_their_type(kinds: list[Any]) -> None:
    labels = np.array(kinds * 12)
    model = Classifier("nano", **TINY).fit(TEXTS, labels)
    assert model.classes_.tolist() == sorted(kinds)
    assert model.predict(TEXTS).dtype == labels.dtype


def test_it_refuses_as_scikit_learn_does() -> None:
    model = Classifier("nano", **TINY)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(TEXTS, LABELS[:-1])
    with pytest.raises(ValueError, match="0 sample"):
        model.fit([], [])
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(TEXTS, np.linspace(0.1, 2.7, 24))
    with pytest.raises(NotFittedError):
        model.predict(TEXTS)


def test_pipeline_search_and_processes() -> None:
    """In a pipeline, over a grid, in two processes, pickled with what was fitted."""
    folded = FunctionTransformer(lambda rows: [row.lower() for row in rows])
    whole = make_pipeline(folded, Classifier("nano", **TINY)).fit(TEXTS, LABELS)
    assert whole.predict(["CAT PURRS number 1"]).shape == (1,)
    search = GridSearchCV(Classifier("nano", **TINY), {"learning_rate": [1e-9, 3e-3]}, cv=2).fit(TEXTS, LABELS)
    assert search.best_params_ == {"learning_rate": 3e-3}
    assert len(cross_val_score(Classifier("nano", **TINY), TEXTS, LABELS, cv=2, n_jobs=2)) == 2


def test_a_fitted_one_travels_between_processes_without_weights_in_the_pickle() -> None:
    model = Classifier("nano", **TINY).fit(TEXTS, LABELS)
    content = pickle.dumps(model)
    assert b"torch._utils" not in content
    again = pickle.loads(content)
    assert (again.predict_proba(TEXTS) == model.predict_proba(TEXTS)).all()
    assert again.classes_.tolist() == ["cat", "dog"]
