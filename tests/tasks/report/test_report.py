"""The report says what is so, escapes what a row says, and stands alone."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from variorum.errors import UsageError
from variorum.tasks.examined import NOTHING, Belief, Choices, Read, of_classes, of_numbers, taken_for, thirds
from variorum.tasks.metrics.classes import macro_f1_of
from variorum.tasks.metrics.correlation import agreement_of
from variorum.tasks.metrics.intervals import mean_of, over_seeds
from variorum.tasks.report import Context, Report, card, examine, page, write
from variorum.tasks.report.card import plain
from variorum.tasks.report.findings import binned
from variorum.tasks.targets import OneOf

NAMES = ("ham", "spam")
TAGS = ("script", "img", "svg", "iframe", "object", "embed", "video", "audio", "body", "input", "form", "math", "link")
PAYLOADS = (
    *(f"<{tag} onload=alert(1) src=x onerror=alert(1)>" for tag in TAGS),
    *(f"</{tag}><script>alert(1)</script>" for tag in ("title", "style", "td", "pre", "blockquote", "textarea", "svg")),
    *(f'"><a href="{scheme}:alert(1)">x</a>' for scheme in ("javascript", "data", "vbscript", "jAvAsCrIpT", "blob")),
    *(f"' {name}='alert(1)" for name in ("onmouseover", "onfocus", "style", "autofocus onfocus", "formaction")),
    "{{ 7 * 7 }}{% raw %}", "{{ report.__class__ }}", "{% include '/etc/passwd' %}", "${alert(1)}", "<!--", "-->",
    "]]>",
    "&lt;b&gt;&#60;script&#62;alert(1)", "<scr<script>ipt>alert(1)</script>", "\x00<script>alert(1)</script>",
    "<meta http-equiv=refresh content='0;url=//evil'>", "<base href=//evil/>", "<style>*{display:none}</style>",
    "\u202e<script>alert(1)</script>", "<details open ontoggle=alert(1)>", "<a\thref='java\nscript:alert(1)'>",
    "<svg><animate onbegin=alert(1)>", "<math><mi xlink:href='javascript:alert(1)'>", "\ufeff<img src=1>",
    "<b>bold</b>",
)  # fmt: skip


class Fake:
    """A classifier that says what it is told to, through the face that a report reads."""

    kind = "classify"

    def __init__(self, probabilities: np.ndarray, names: Sequence[str] = NAMES) -> None:
        self.probabilities, self.targets = probabilities, OneOf(np.array(names))
        self.history_ = type("History", (), {"epochs": [_epoch(1, 0.7, 0.5), _epoch(2, 0.4, 0.8)]})()
        spec = type("Spec", (), {"name": "fake <b>"})()
        self.model_ = type("M", (), {"spec": spec, "parameters": lambda self: [], "label_names": tuple(names)})()

    def figures(self, predicted: Any, y: Any) -> dict[str, Any]:
        given, truth = np.array(list(predicted)), np.array(list(y))
        names = np.unique([*given, *truth])
        return {"macro_f1": macro_f1_of(given[:, None] == names, truth[:, None] == names),
                "accuracy": mean_of(given == truth)}  # fmt: skip

    def right(self, X: Any, y: Any) -> Any:
        return y

    def examined(self, X: Sequence[str], y: Sequence[str]) -> Any:
        given = self.targets.classes[self.probabilities.argmax(-1)].tolist()
        read = Read(texts=X, tokens=[len(text.split()) for text in X], limit=12)
        return of_classes(read, self.figures(given, y), Choices.of(self.targets, y, given, self.probabilities))

    def get_params(self, deep: bool) -> dict[str, Any]:
        return {"model": "fake", "epochs": 2}


def _epoch(number: int, loss: float, score: float) -> Any:
    return type("Epoch", (), {"epoch": number, "loss": loss, "score": score})()


def sure(answers: Sequence[int], confidence: float = 0.9) -> np.ndarray:
    made = np.full((len(answers), 2), 1 - confidence)
    made[np.arange(len(answers)), list(answers)] = confidence
    return made


def reported(truth: Sequence[int], answers: Sequence[int], texts: Sequence[str] | None = None, **more: Any) -> Report:
    rows = texts or ["one two three " * (1 + i % 7) for i in range(len(truth))]
    models: Any = [Fake(sure(answers))]
    return examine(models, rows, [NAMES[t] for t in truth], Context(command="variorum report a b", **more))


TRUTH = [0] * 60 + [1] * 40
SAID = [0] * 50 + [1] * 10 + [1] * 30 + [0] * 10


def test_figures_are_those_of_the_confusion_matrix_inside_their_intervals() -> None:
    found = reported(TRUTH, SAID)
    assert found.confusion == ((50, 10), (10, 30))
    macro, accuracy = found.figures
    assert accuracy.items.value == pytest.approx(0.8)
    assert macro.items.value == pytest.approx((100 / 120 + 60 / 80) / 2)
    assert 0.7 < accuracy.items.low < 0.75 and 0.85 < accuracy.items.high < 0.9
    ham, spam = found.by_class
    assert (ham.rows, spam.rows) == (60, 40)
    assert spam.precision.value == pytest.approx(30 / 40) and ham.recall.value == pytest.approx(50 / 60)
    assert spam.f1.low < spam.f1.value < spam.f1.high


def test_over_seeds_stands_students_interval_and_each_of_them() -> None:
    other = [0] * 55 + [1] * 5 + [1] * 30 + [0] * 10
    models: Any = [Fake(sure(SAID)), Fake(sure(other))]
    found = examine(models, ["a"] * 100, [NAMES[t] for t in TRUTH], Context(command="c"))
    accuracy = found.figures[1]
    assert accuracy.by_seed == pytest.approx((0.8, 0.85)) and accuracy.seeds == over_seeds([0.8, 0.85])
    assert accuracy.items.value == pytest.approx(0.825)
    assert "each seed" in page(found) and "0.800 · 0.850" in card(found)


def test_the_calibration_error_is_the_mean_gap_between_sure_and_right() -> None:
    said, so = np.array([0.95] * 10 + [0.55] * 10), np.array([1.0] * 8 + [0.0] * 2 + [1.0] * 10)
    bins, error = binned(Belief(said=said, so=so))
    assert [(one.rows, round(one.so, 2)) for one in bins] == [(10, 1.0), (10, 0.8)]
    assert all(0 < one.low <= one.so <= one.high <= 1 + 1e-9 for one in bins)
    assert error == pytest.approx((0.45 + 0.15) / 2)


def test_errors_are_named_with_their_rows_the_most_confident_first() -> None:
    chances = np.array([[0.9, 0.1], [0.4, 0.6], [0.05, 0.95], [0.2, 0.8]])
    models: Any = [Fake(chances)]
    found = examine(models, ["a", "b", "c", "d"], ["ham", "ham", "ham", "spam"], Context(command="c"))
    assert [(one.row, one.truth, one.answer) for one in found.confident] == [(3, "ham", "spam"), (2, "ham", "spam")]
    assert found.confident[0].note == "the truth was given 5.0%"
    lines = examine(
        models, ["a", "b", "c", "d"], ["ham", "ham", "ham", "spam"], Context(command="c", lines=(2, 5, 9, 11))
    )
    assert lines.confident[0].row == 9 and "line 9: ham, answered spam with 95.0%" in page(lines)


def test_slices_are_by_length_language_and_whatever_column_one_names() -> None:
    texts = ["the house is old and the sea is near"] * 50 + ["das Haus ist alt und die See ist nah"] * 50
    found = reported(TRUTH, SAID, texts, slices={"domain": ["film"] * 30 + ["book"] * 70})
    by = {(one.by, one.name): one for one in found.slices}
    assert by["domain", "film"].rows == 30 and by["domain", "film"].mean.value == 1
    assert {name for kind, name in by if kind == "language"} == {"en", "de"}
    thirds = [one.rows for one in reported(TRUTH, SAID).slices if one.by == "length"]
    assert sum(thirds) == 100 and len(thirds) == 3


def test_rows_that_were_cut_are_counted_and_a_label_that_nobody_learned_has_its_own_class() -> None:
    models: Any = [Fake(sure([0, 1, 1]))]
    found = examine(models, ["a " * 13, "b", "c"], ["ham", "spam", "eggs"], Context(command="c"))
    assert (
        found.longer == 1 and "1 of 3 rows are longer than the 12 tokens" in page(found) and "were cut" in page(found)
    )
    assert found.names == ("ham", "spam", "eggs") and found.by_class[2].recall.value == 0


def test_the_baseline_stands_beside() -> None:
    found = reported(TRUTH, SAID, baselines={"TF-IDF": [NAMES[t] for t in TRUTH], "none": ["ham"] * 100})
    assert found.baselines["TF-IDF"][0].items.value == 1
    assert (
        "that of TF-IDF 1.000" in page(found) and "TF-IDF: macro f1" in card(found) and "none: accuracy" in page(found)
    )


def test_many_classes_are_listed_by_what_is_taken_for_what() -> None:
    names = [f"class {i}" for i in range(20)]
    truth = np.arange(200) % 20
    answers = np.where(np.arange(200) < 40, (truth + 1) % 20, truth)
    models: Any = [Fake(np.eye(20)[answers], names)]
    found = examine(models, ["x"] * 200, [names[t] for t in truth], Context(command="c"))
    assert "taken for" in page(found) and 'class="matrix"' not in page(found)
    assert 'class="matrix"' in page(reported(TRUTH, SAID))


def test_what_has_no_report_is_refused() -> None:
    other: Any = [Fake(sure([0])), Fake(sure([0]), names=("spam", "ham"))]
    with pytest.raises(UsageError, match="different classes"):
        examine(other, ["a"], ["ham"], Context(command="c"))
    with pytest.raises(UsageError, match="needs rows"):
        examine(other[:1], [], [], Context(command="c"))


def test_labels_that_are_missing_or_too_many_are_taken_for_nothing() -> None:
    truth = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=bool)
    given = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], dtype=bool)
    found = taken_for(("a", "b", "c"), truth, given)
    assert found.names == ("a", "b", "c", NOTHING)
    assert found.counts.tolist() == [[1, 0, 0, 1], [0, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0]]


def test_words_of_a_row_are_chosen_for_apart_and_rows_without_one_are_right() -> None:
    read = Read(texts=["a b", "", "c"], tokens=[2, 0, 1], limit=9, windows=True)
    choices = Choices.of(OneOf(np.array(["N", "V"])), ["N", "V", "N"], ["N", "N", "V"])
    found = of_classes(read, {}, dataclasses.replace(choices, rows=[0, 0, 2], units="words"))
    assert found.each.tolist() == [0.5, 1, 0] and [one.row for one in found.mistakes] == [0, 2]
    assert found.kinds is not None and found.kinds.counts[:, 0].tolist() == [[1, 2, 1], [0, 0, 0], [0, 0, 1]]
    assert found.belief is None


def test_numbers_are_set_against_the_truth_by_tenths_of_what_was_said() -> None:
    right = np.arange(100.0)
    read = Read(texts=[f"text {i}" for i in range(100)], tokens=[2] * 100, limit=9)
    found = of_numbers(read, agreement_of(right + 1, right), right + 1, right, "score")
    assert found.groups["score"] == thirds(right) and set(thirds(right)) == {"0 to 33", "34 to 66", "67 to 99"}
    bins, error = binned(found.belief)
    assert [one.rows for one in bins] == [10] * 10 and error == pytest.approx(1)
    assert found.mistakes[0].note == "off by +1" and found.measure == "absolute error"


class Parsed(html.parser.HTMLParser):
    """Every tag and attribute that a browser would see, and all the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_fifty_payloads_in_texts_labels_slices_and_facts_stay_letters() -> None:
    assert len(PAYLOADS) >= 50
    plainly = Parsed(page(reported([0] * 60, [1] * 60, ["x"] * 60, slices={"s": ["a", "b"] * 30})))
    for begin in range(0, len(PAYLOADS), 10):
        bad = PAYLOADS[begin : begin + 10]
        texts = [f"{one} {i}" for i, one in enumerate(bad)]
        models: Any = [Fake(sure([1] * len(bad)), names=(bad[0], bad[1]))]
        found = examine(models, texts, [bad[0]] * len(bad), Context(
            command=bad[2], slices={bad[3]: [bad[4], bad[5]] * (len(bad) // 2)}, audit=(bad[6],),
            facts={bad[7]: bad[8]}, baselines={bad[9]: [bad[0]] * len(bad)},
        ))  # fmt: skip
        seen = Parsed(page(found))
        assert {tag for tag, _ in seen.tags} <= {tag for tag, _ in plainly.tags} | {"li", "ul"}
        for tag, attributes in seen.tags:
            assert not any(name.startswith("on") or name in ("href", "src", "style") for name in attributes), (tag,)
        whole = "".join(seen.text)
        assert all(one.replace("\x00", "") in whole.replace("\x00", "").replace("\ufffd", "") for one in bad)


def test_the_page_asks_for_nothing_and_its_policy_lets_nothing_in(tmp_path: Path) -> None:
    found = reported(TRUTH, SAID)
    text = page(found)
    policy = next(a["content"] for t, a in Parsed(text).tags if t == "meta" and "http-equiv" in a)
    assert policy is not None and policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not re.search(r"https?://|<script|@import|url\(", text)
    assert 'name="viewport"' in text and text.count("<svg") >= 4
    paths = write(found, tmp_path / "out")
    assert [path.name for path in paths] == ["report.html", "report.json", "README.md"]
    assert json.loads(paths[1].read_text())["figures"][1]["name"] == "accuracy"


def test_the_card_holds_no_text_of_a_row_and_nothing_that_markdown_would_act_on() -> None:
    found = reported(TRUTH, SAID, ["secret words"] * 100, audit=("12 | rows\nare <b>twice</b> there",))
    assert "secret" not in card(found)
    assert r"12 \| rows are \<b\>twice\</b\> there" in card(found)
    assert plain("a|b\n`c`") == r"a\|b \`c\`"
