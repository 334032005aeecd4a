"""Classification of texts: one label of several, or any of several.

Classes stand in scikit-learn's order, and their names go into the published config (``id2label``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from variorum.errors import UsageError
from variorum.objectives.labels import Labels
from variorum.tasks import decisions
from variorum.tasks.decisions import Decision
from variorum.tasks.estimator import Columns, Estimator, held_out, texts_of
from variorum.tasks.examined import Choices, Examined, Read, of_classes
from variorum.tasks.examples import Example, Padded, inputs_of
from variorum.tasks.metrics.classes import calibration_error, indicated_f1, macro_f1_of
from variorum.tasks.metrics.intervals import mean_of
from variorum.tasks.scores import scores
from variorum.tasks.targets import AnyOf, OneOf, Targets

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from variorum.face import Model
    from variorum.tasks.decisions import Floats
    from variorum.tasks.metrics.intervals import Figure

HEAD = "sequence_classification"


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Classifier(ClassifierMixin, Estimator):
    """Texts to labels.

    Args:
        separator: what stands between the labels of one text, where it may have several; one label each if empty. An
            indicator matrix as ``y`` has several without it.
        class_weight: "balanced", or a weight by class, by which losses are multiplied.
        focus: the exponent of focal loss; 0 is plain cross-entropy.
        oversample: share of the largest class's rows that every other class is brought to by reading rows again.
        thresholds: what they are tuned for on the rows held out; all classes are treated alike if absent.
        calibrate: find the temperature at which probabilities can be believed, on the rows held out.
        risk: answer only where at most this share of answers is wrong, and abstain otherwise.
        budget: abstain on this share of rows, those of the least confidence.
        abstain_below: abstain below this confidence, which ``risk`` and ``budget`` find on the rows held out.
    """

    kind: ClassVar[str] = "classify"
    columns: ClassVar[Columns] = Columns(("text",), "label")
    texts: ClassVar[Literal[1, 2]] = 1

    separator: str = ""
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None
    focus: float = 0.0
    oversample: float = 0.0
    thresholds: Literal["macro_f1"] | None = None
    calibrate: bool = False
    risk: float | None = None
    budget: float | None = None
    abstain_below: float = 0.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn.

        Args:
            X: texts [N].
            y: a label each; or an indicator matrix [N, labels], or with ``separator`` labels in one string.
            sample_weight: by which each row's loss is multiplied, [N].

        Raises:
            UsageError: there is one class only, or nothing held out for what is to be tuned.
        """
        decisions.check_shares(risk=self.risk, budget=self.budget)
        texts = texts_of(X, self.texts)
        check_consistent_length(texts, y, sample_weight)
        self.begun(y)
        y = _rows(y)
        single = y if isinstance(self._targets, OneOf) else None
        learned, held = held_out(len(texts), self.validation, self.seed, single)
        if not held and (self.thresholds or self.calibrate or self.risk is not None or self.budget is not None):
            raise UsageError(
                "no row is held out to tune decisions on", where="validation", remedy="give a share above 0"
            )
        model = self.started(HEAD, [one for i in learned for one in _parts(texts[i])],
                             labels=tuple(map(str, self.classes_.tolist())), problem=self._targets.problem)  # fmt: skip
        weight = np.ones(len(texts)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        examples = self._examples(model, [texts[i] for i in learned], y[learned], weight[learned])
        kept, truth = [texts[i] for i in held], self._targets.matrix(y[held])

        def judge(model: Model) -> float:
            probabilities = self._targets.probabilities(scores(model, self.encode(model, kept)), 1.0)
            return _macro_f1(self._targets.chosen(probabilities, Decision()), truth)

        self.tune(model, Labels(HEAD, focus=self.focus), examples, Padded(model.tokenizer.pad_id or 0),
                  judge if held else None)  # fmt: skip
        self.decision_ = self._decided(kept, truth) if held else Decision(least=self.abstain_below)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities [N, labels], after calibration; of labels that may stand together each on its own."""
        logits = self._scores(X)
        return self._targets.probabilities(logits, self.decision_.temperature)

    def predict(self, X: Any) -> NDArray[Any]:
        """The answers in the form of ``y``; thresholds are heeded, but it never abstains: see :meth:`answers`."""
        probabilities = self.predict_proba(X)
        return self._targets.labels(self._targets.chosen(probabilities, self.decision_))

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """Label and confidence of each text; where it may abstain also whether it does, and then without a label."""
        probabilities = self.predict_proba(X)
        chosen = self._targets.chosen(probabilities, self.decision_)
        confidence = self._targets.confidence(probabilities, chosen)
        labels = self._targets.labels(chosen).tolist()
        made = [{"label": label, "confidence": float(sure)} for label, sure in zip(labels, confidence, strict=True)]
        if self.decision_.least:
            for one in made:
                one["abstained"] = one["confidence"] < self.decision_.least
                one["label"] = None if one["abstained"] else one["label"]
        return made

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """Macro-F1 and accuracy of all answers, and what abstaining and calibration do.

        ``unseen`` rows have a label that was not learned; they count as wrong.
        """
        probabilities, truth = self.predict_proba(X), self._targets.matrix(_rows(y))
        chosen = self._targets.chosen(probabilities, self.decision_)
        given, truth = _as_wide(chosen, truth)
        confidence, right = self._targets.confidence(probabilities, chosen), (given == truth).all(-1)
        answered = confidence >= self.decision_.least
        return {
            "macro_f1": _macro_f1(given, truth), "accuracy": float(right.mean()), "rows": len(truth),
            "unseen": int(truth[:, chosen.shape[1] :].any(-1).sum()), "abstained": int((~answered).sum()),
            "accuracy_of_answers": float(right[answered].mean()) if answered.any() else None,
            "calibration_error": calibration_error(confidence, right),
        }  # fmt: skip

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """Macro-F1 and accuracy."""
        given, truth = _as_wide(self._targets.matrix(predicted), self._targets.matrix(_rows(y)))
        return {"macro_f1": macro_f1_of(given, truth), "accuracy": mean_of((given == truth).all(-1))}

    def examined(self, X: Any, y: Any) -> Examined:
        """Its classes, and how sure it was of each row."""
        texts, right = texts_of(X, self.texts), _rows(y)
        probabilities = self.predict_proba(texts)
        given = self._targets.labels(self._targets.chosen(probabilities, self.decision_))
        said = Choices.of(self._targets, list(right), list(given), probabilities)
        return of_classes(Read.by(self.model_, texts, self.limit(self.model_)), self.figures(given, right), said)

    def begun(self, y: Any) -> None:
        """Take the classes."""
        self._targets = self._kind_of(y)
        self.classes_ = self._targets.classes

    def learned(self) -> dict[str, Any]:
        """Classes and decisions."""
        return {
            "classes": self.classes_.tolist(), "several": isinstance(self._targets, AnyOf),
            "decision": dataclasses.asdict(self.decision_),
        }  # fmt: skip

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Take back classes and decisions.

        Raises:
            ValueError: the model's head tells other classes apart.
        """
        self.classes_ = np.array(learned["classes"])
        names = tuple(map(str, self.classes_.tolist()))
        if self.model_.label_names != names:
            raise ValueError(f"config.json names {len(self.model_.label_names)} labels, not these {len(names)}")
        self._targets = AnyOf(self.classes_, self.separator) if learned["several"] else OneOf(self.classes_)
        given = learned["decision"]
        self.decision_ = Decision(**given | {"thresholds": tuple(given["thresholds"])})

    def _kind_of(self, y: Any) -> Targets:
        if self.separator or type_of_target(y) == "multilabel-indicator":
            return AnyOf.of(y, self.separator)
        return OneOf.of(y)

    def _examples(self, model: Model, texts: Sequence[Any], y: Any, weight: Floats) -> list[Example]:
        weight = weight * self._targets.weights(self.class_weight, y)
        rows = zip(self.encode(model, texts), self._targets.targets(y), weight.tolist(), strict=True)
        made = [Example(inputs=inputs_of(model, one), target=asked, weight=size) for one, asked, size in rows]
        return [made[i] for i in _again(self._targets.matrix(y), self.oversample)]

    def _scores(self, X: Any) -> Any:
        check_is_fitted(self)
        return scores(self.model_, self.encode(self.model_, texts_of(X, self.texts))).numpy()

    def _decided(self, texts: Sequence[Any], truth: Any) -> Decision:
        """Tuned on what was held out: first the temperature, then thresholds, then from where to abstain."""
        logits, targets = self._scores(texts), self._targets
        found = Decision(temperature=targets.temperature(logits, truth) if self.calibrate else 1.0)
        probabilities = targets.probabilities(logits, found.temperature)
        if self.thresholds is not None:
            found = dataclasses.replace(found, thresholds=targets.thresholds(probabilities, truth))
        chosen = targets.chosen(probabilities, found)
        confidence, least = targets.confidence(probabilities, chosen), self.abstain_below
        if self.risk is not None:
            least = max(least, decisions.least_for_risk(confidence, (chosen == truth).all(-1), self.risk))
        if self.budget is not None:
            least = max(least, decisions.least_for_budget(confidence, self.budget))
        return dataclasses.replace(found, least=least)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _parts(text: Any) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def _rows(y: Any) -> NDArray[Any]:
    """Labels that can be picked by row."""
    return y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)


def _again(truth: Any, share: float) -> list[int]:
    """Row numbers, those of rare labels several times: each label has ``share`` of the most frequent one's rows."""
    numbers, most = list(range(len(truth))), int(share * truth.sum(0).max())
    for k in range(truth.shape[1]):
        mine = np.flatnonzero(truth[:, k])
        if 0 < len(mine) < most:
            numbers += np.resize(mine, most - len(mine)).tolist()
    return numbers


def _as_wide(given: Any, truth: Any) -> tuple[Any, Any]:
    """Both with as many labels [N, labels], those that were not learned last."""
    width = max(given.shape[1], truth.shape[1])
    wide = [np.pad(one, ((0, 0), (0, width - one.shape[1]))) for one in (given, truth)]
    return wide[0], wide[1]


def _macro_f1(given: Any, truth: Any) -> float:
    return float(np.nanmean(indicated_f1(given, truth)))
