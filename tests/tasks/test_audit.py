"""What is wrong with rows is found where it was put, and little else."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.tools.doubted import DOMAINS, audit_of, domains
from variorum.errors import DamagedFile
from variorum.tasks.audit import Audit, Columns, Severity, audit
from variorum.tasks.audit.duplicates import ALIKE, alike, exact, near, shingles
from variorum.tasks.table import read, write
from variorum.text import byte_tokenizer

WORDS = ["river", "stone", "cloud", "paper", "window", "garden", "silver", "train", "letter", "bread", "music", "glass"]


def sentence(rng: random.Random, words: int = 12) -> str:
    return " ".join(rng.choice(WORDS) + str(rng.randrange(40)) for _ in range(words))


def rows(count: int, seed: int = 0) -> list[dict[str, object]]:
    rng = random.Random(seed)
    return [
        {"text": f"{sentence(rng)} {'warm' if i % 2 else 'cold'}{rng.randrange(40)}", "label": "ab"[i % 2]}
        for i in range(count)
    ]


def audited(tmp_path: Path, given: list[dict[str, object]], **more: object) -> Audit:
    write(tmp_path / "rows.jsonl", given)
    return audit(read(tmp_path / "rows.jsonl", filled=()), Columns(), **more)  # type: ignore[arg-type]


def found(result: Audit, check: str) -> list[tuple[Severity, tuple[int, ...]]]:
    return [(one.severity, one.lines) for one in result.findings if one.check == check]


@pytest.mark.mechanism("X")
def test_rows_without_a_fault_give_no_finding(tmp_path: Path) -> None:
    result = audited(tmp_path, rows(300))
    assert [one for one in result.findings if one.check not in ("languages",)] == []
    assert result.figures["balance"] == {"a": 150, "b": 150}
    assert (result.figures["rows"], result.figures["duplicates"]) == (300, 0)


def test_what_was_planted_is_found_at_its_line(tmp_path: Path) -> None:
    given = rows(300)
    given[10] = {"text": str(given[0]["text"]).upper() + "  ", "label": given[0]["label"]}
    given[11] = {"text": given[1]["text"], "label": "a"}
    given[12] = {"text": str(given[2]["text"]) + " extra", "label": given[2]["label"]}
    given[13] = {"text": " ", "label": "a"}
    given[14] = {"text": "lonely", "label": ""}
    result = audited(tmp_path, given)
    assert found(result, "duplicates") == [(Severity.LOOK, (11, 12)), (Severity.LOOK, (13,))]
    assert found(result, "contradictions") == [(Severity.LOOK, (2, 12))]
    assert found(result, "empty") == [(Severity.LOOK, (14,)), (Severity.LOOK, (15,))]
    assert result.serious == []


def test_rows_of_a_test_set_that_are_learned_from_are_serious(tmp_path: Path) -> None:
    test = rows(50, seed=1)
    test[3], test[7] = rows(300)[20], {"text": str(rows(300)[30]["text"]) + " more", "label": "a"}
    write(tmp_path / "test.jsonl", test)
    result = audited(tmp_path, rows(300), test=read(tmp_path / "test.jsonl", filled=()))
    assert found(result, "splits") == [(Severity.SERIOUS, (4,)), (Severity.SERIOUS, (8,))]


def test_columns_and_words_that_give_the_label_away_are_told(tmp_path: Path) -> None:
    given = [
        {
            **row,
            "id": f"{row['label']}-{i}",
            "group": f"set {row['label']}",
            "noise": i % 7,
            "n": 1000 * (i % 2) + i // 2,
        }
        for i, row in enumerate(rows(200))
    ]
    told = [one.what for one in audited(tmp_path, given).findings if one.check == "leaks"]
    assert [what.split(":")[0] for what in told] == ["column 'id'", "column 'group'", "column 'n'"]
    named = [
        {"text": f"{row['text']} rain", "label": "rain"} if row["label"] == "a" else {**row, "label": "sun"}
        for row in rows(200)
    ]
    assert "the label's own name: 'rain' stands in 100%" in audited(tmp_path, named).serious[0].what


def test_classes_that_are_rare_alone_or_no_classes_are_told(tmp_path: Path) -> None:
    rare = [*rows(300), *({"text": f"other {i}", "label": "c"} for i in range(5))]
    assert found(audited(tmp_path, rare), "balance") == [(Severity.LOOK, tuple(range(301, 306)))] * 2
    assert found(audited(tmp_path, [{**row, "label": "a"} for row in rows(30)]), "balance")[0][0] is Severity.SERIOUS
    assert (
        found(audited(tmp_path, [{**row, "label": f"l{i}"} for i, row in enumerate(rows(30))]), "balance")[0][0]
        is Severity.SERIOUS
    )


def test_ids_that_are_there_twice_are_told(tmp_path: Path) -> None:
    given = [{**row, "id": str(i if i != 7 else 3)} for i, row in enumerate(rows(60))]
    assert found(audited(tmp_path, given), "ids") == [(Severity.LOOK, (4, 8))]


@pytest.mark.case("V053")
def test_rows_that_cannot_be_read_are_counted_and_a_file_of_them_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "text,label\n" + "".join(f"{r['text']},{r['label']}\n" for r in rows(40)) + "torn\n"
    )
    result = audit(read(tmp_path / "a.csv", filled=()), Columns())
    assert result.figures["rows"] == 41
    assert found(result, "unreadable") == [(Severity.SERIOUS, (42,))]
    (tmp_path / "b.csv").write_text("text,label\ntorn\n")
    with pytest.raises(DamagedFile, match="not one row can be read"):
        audit(read(tmp_path / "b.csv", filled=()), Columns())


@pytest.mark.parametrize("given", [
    [{"text": "one", "label": "a"}], [{"text": "", "label": ""}], [{"text": "x" * 2**20, "label": "a"}] * 3,
    [{"text": "same", "label": str(i % 2)} for i in range(50)],
    [{"text": "!", "label": "a"}, {"text": "?", "label": "b"}] * 10,
])  # fmt: skip
def test_strange_rows_are_no_failure(tmp_path: Path, given: list[dict[str, object]]) -> None:
    assert audited(tmp_path, given).figures["rows"] == len(given)


def test_texts_are_measured_as_the_tokenizer_takes_them(tmp_path: Path) -> None:
    given = [{"text": "é" * 10, "label": "ab"[i % 2]} for i in range(40)] + rows(100)
    result = audited(tmp_path, given, tokenizer=byte_tokenizer(), limit=60)
    by = result.figures["tokens"]
    assert by["longest"] > 60 and result.figures["cut"] == sum(len(str(row["text"]).encode()) + 1 > 60 for row in given)
    assert found(result, "lengths")[0][0] is Severity.SERIOUS


def test_labels_in_several_languages_are_sliced(tmp_path: Path) -> None:
    hindi = [{"text": f"मुझे यह किताब {i} बार पढ़नी है और बहुत पसंद है", "label": "a"} for i in range(30)]
    english = [{"text": f"I have read this book {i} times and would do it again", "label": "b"} for i in range(60)]
    result = audited(tmp_path, [*hindi, *english], tokenizer=byte_tokenizer())
    assert result.figures["languages"] == {"en": 60, "hi": 30}
    assert found(result, "languages") == [(Severity.LOOK, tuple(range(1, 31)))]
    assert (
        result.figures["by_language"]["hi"]["tokens_a_word"] > 2 * result.figures["by_language"]["en"]["tokens_a_word"]
    )


@pytest.mark.parametrize(
    ("names", "precision", "recall"), [(("product", "tweet"), 0.8, 0.55), (DOMAINS, 0.6, 0.6)], ids=["two", "four"]
)
def test_of_labels_that_are_suspected_most_are_the_planted_ones(
    names: tuple[str, ...], precision: float, recall: float
) -> None:
    """On real snippets of which one in twenty is mislabelled: of rows taken blindly 0.05 would be."""
    found = audit_of(domains(*names), seed=0)
    assert found[0] >= precision and found[1] >= recall, found


def test_vectors_show_wrong_labels_that_words_do_not() -> None:
    labelled, rng = domains("product", "tweet"), np.random.default_rng(0)
    side = {text: 1.0 if label == "tweet" else -1.0 for text, label in zip(*labelled, strict=True)}

    def vectors(texts: Sequence[str]) -> np.ndarray:
        """Noise, with the right class in it."""
        found = rng.normal(size=(len(texts), 8))
        found[:, 0] += [2 * side[text] for text in texts]
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    (precision, recall), alone = audit_of(labelled, 0, vectors), audit_of(labelled, 0)
    assert recall >= alone[1] + 0.1 and precision >= alone[0]


def test_near_copies_are_those_that_are_alike_and_every_one_of_them() -> None:
    rng = random.Random(1)
    texts = [sentence(rng, 30) for _ in range(400)]
    copies = {}
    for place in range(0, 400, 4):
        words = texts[place].split()
        for change in rng.sample(range(30), place % 5):
            words[change] = "changed"
        copies[len(texts)] = place
        texts.append(" ".join(words))
    groups = {frozenset(places) for places in near(texts)}
    wanted = {frozenset((a, b)) for a, b in copies.items() if alike(shingles(texts[a]), shingles(texts[b])) >= ALIKE}
    assert groups <= wanted
    assert len(groups) >= 0.95 * len(wanted) > 0
    assert {frozenset(places) for places in exact(texts)} <= groups


def test_copies_are_found_in_time_that_grows_with_the_rows() -> None:
    def seconds(count: int) -> float:
        rng = random.Random(2)
        texts = [sentence(rng, 10) for _ in range(count // 2)] + ["the very same text over and over again"] * (
            count // 2
        )
        texts[-1] += " and once more"
        begun = time.perf_counter()
        near(texts)
        return time.perf_counter() - begun

    assert np.median([seconds(8000) for _ in range(3)]) < 8 * np.median([seconds(2000) for _ in range(3)]) + 0.2
