"""Every kind of task by commands alone: trained, asked, judged, reported on; no row is lost or shifted."""

from __future__ import annotations

import csv
import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli import models
from tests.cli.verbs import answered
from tests.tasks import writers
from variorum import tasks
from variorum.cli import main

QUICK = ("--epochs", "2", "--batch-size", "8", "--learning-rate", "2e-3", "--validation", "0.2")
LONG = 1_000_000
"""Characters of the longest row; where a long one is not cut but read in windows, the hundredth of it."""
NAMES, PLACES = ("Bob", "Cy Young", "Ada"), ("Rio", "Den Haag", "Oslo", "Ulm")
NUMBERS = {"one": "uno", "two": "dos", "three": "tres", "four": "null"}


def flights(count: int) -> list[tuple[str, str]]:
    draw, found = random.Random(0), []
    for _ in range(count):
        words, tags = [], []
        for part in (draw.choice(NAMES), "flew", "to", draw.choice(PLACES), "."):
            kind = "LOC" if part in PLACES else "PER" if part in NAMES else ""
            words += part.split()
            tags += [f"{'I' if at else 'B'}-{kind}" if kind else "O" for at, _ in enumerate(part.split())]
        found.append((" ".join(words), " ".join(tags)))
    return found


def questions(count: int) -> list[tuple[str, str, str]]:
    draw, filler = random.Random(1), ["the", "man", "in", "want", "of", "a", "wife", "was", "single"]
    found = []
    for number in range(count):
        words, there = draw.choices(filler, k=draw.randint(6, 30)), number % 3 > 0
        words.insert(draw.randint(0, len(words)), "Darcy" if there else "nobody")
        found.append(("Who is named?", " ".join(words), "Darcy" if there else ""))
    return found


@dataclasses.dataclass(frozen=True)
class Kind:
    """How a kind of task is tried: its table, the field of its answers, its first figure, what else train is told."""

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    field: str
    figure: str
    words: tuple[str, ...] = ()


PAIRS = [(a, b, "NA" if b == "uno" else "null") for a in NUMBERS for b in NUMBERS.values()] * 2
KINDS = {
    one.name: one
    for one in (
        Kind("tag", ("words", "tags"), flights(40), "tags", "f1", ("--max-length", "24")),
        Kind("answer", ("question", "context", "answer"), questions(36), "answer", "f1",
             ("--max-length", "32", "--stride", "12")),
        Kind("pairs", ("text1", "text2", "label"), PAIRS, "label", "macro_f1", ("--max-length", "16")),
        Kind("classify", ("text", "label"), [(f"{a} {b}", f"{b};NA" if b == "uno" else b) for a, b, _ in PAIRS],
             "label", "macro_f1", ("--max-length", "16", "--separator", ";")),
        Kind("number", ("text", "score"), [(f"good {'good ' * (i % 5)}", str(i % 5)) for i in range(40)], "score",
             "spearman", ("--max-length", "16")),
        Kind("seq2seq", ("source", "target"), list(NUMBERS.items()) * 8, "target", "chrf",
             ("--max-target-length", "6")),
    )
}  # fmt: skip
every = pytest.mark.parametrize("kind", KINDS)


def written(place: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    with place.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return place


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[str, ...]]:
    """What train is told of a kind besides its data."""
    place = tmp_path_factory.mktemp("start") / "t5"

    def words(kind: str) -> tuple[str, ...]:
        if kind != "seq2seq":
            return (*QUICK, *KINDS[kind].words)
        if not place.exists():
            writers.t5(place, [*NUMBERS, *NUMBERS.values()])
        return (*QUICK, *KINDS[kind].words, "--model", str(place))

    return words


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory, start: Callable[[str], tuple[str, ...]]
) -> Callable[[str], tuple[Path, Path]]:
    """The model of a kind, and the table that it was trained on; each is trained when first asked for."""
    made: dict[str, tuple[Path, Path]] = {}

    def get(name: str) -> tuple[Path, Path]:
        if name not in made:
            place, kind = tmp_path_factory.mktemp(name), KINDS[name]
            data = written(place / "rows.csv", kind.columns, kind.rows)
            assert main(["train", name, str(data), "--out", str(place / "model"), *start(name)]) == 0
            made[name] = place / "model", data
        return made[name]

    return get


@every
def test_it_is_trained_asked_and_judged(kind: str, trained: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    model, data = trained(kind)
    out, err = capsys.readouterr()
    if out:
        assert "the model" in err
    known = KINDS[kind]
    rows = answered(capsys, "predict", str(model), str(data))
    assert [tuple(row[name] for name in known.columns) for row in rows] == known.rows
    assert all(f"predicted_{known.field}" in row for row in rows)
    figures = answered(capsys, "evaluate", str(model), str(data))
    assert next(iter(figures)) == known.figure
    assert figures["low"] <= figures[known.figure] <= figures["high"]


@every
@pytest.mark.case("V053")
def test_every_row_keeps_its_place(
    kind: str, trained: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A byte-order mark, CRLF, quotes, line breaks in cells, empty cells, a ragged row, a blank line, a long row."""
    model, _ = trained(kind)
    known = KINDS[kind]
    usual, size = known.rows[1][:-1], LONG // 100 if kind in ("tag", "answer") else LONG
    odd = [
        ['say, "one"', *usual[1:]], ["one\ntwo", *usual[1:]], [*usual[:-1], ""], [*usual[:-1], " \t "],
        [*usual[:-1], "one two " * (size // 8)], ["\u0000\u200b", *usual[1:]], usual,
    ]  # fmt: skip
    data = tmp_path / "odd.csv"
    with data.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(["id", *known.columns[:-1]])
        writer.writerows(["7", *row] for row in odd)
        file.write("7\r\n\r\n")
    capsys.readouterr()
    words = ["predict", str(model), str(data), "--out", str(tmp_path / "out.jsonl"), "--format", "json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert f"1 cell for {len(known.columns)} columns" in err
    assert json.loads(out)["failed"] == 1
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == len(odd) + 1
    for row, given in zip(rows, odd, strict=False):
        assert [row[name] for name in known.columns[:-1]] == list(given)
        assert known.field in row and "error" not in row
    assert "1 cell" in rows[-1]["error"]


@every
def test_what_cannot_be_learned_from_is_one_line(
    kind: str, start: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = KINDS[kind]
    alike = {"tag": ("a b", "O O"), "pairs": ("a", "b", "x")}
    cases: list[tuple[list[str], list[Sequence[str]], int, str]] = [
        ([*known.columns[:-1], "odd"], known.rows[:9], 3, f"no column {known.columns[-1]!r}"),
        ([*known.columns], [], 7, "no row"),
        ([*known.columns], [("",) * len(known.columns)], 7, "not one row can be used"),
        *([([*known.columns], [alike[kind]] * 9, 2, "cannot be told apart")] if kind in alike else []),
    ]
    for number, (columns, rows, code, says) in enumerate(cases):
        data = written(tmp_path / f"{number}.csv", columns, rows)
        capsys.readouterr()
        assert main(["train", kind, str(data), "--out", str(tmp_path / "model"), *start(kind)]) == code
        out, err = capsys.readouterr()
        assert out == "" and says in err.splitlines()[-1] and "Traceback" not in err
        assert not (tmp_path / "model").exists()


@every
def test_one_row_is_learned_from_or_refused(
    kind: str, start: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one row nothing can be held out; where it has no other class either, it says so."""
    known = KINDS[kind]
    data = written(tmp_path / "one.csv", known.columns, known.rows[1:2])
    code = main(["train", kind, str(data), "--out", str(tmp_path / "model"), *start(kind)])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert code == (2 if kind == "pairs" else 0), err


@every
def test_a_report_has_what_the_kind_can_say(
    kind: str, trained: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = trained(kind)
    capsys.readouterr()
    words = ["report", str(model), str(data), "--out", str(tmp_path), "--train", str(data), "--format", "json"]
    assert main(words) == 0
    found = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert found["figures"][0]["name"] == KINDS[kind].figure.replace("_", " ")
    assert found["baselines"]
    expected = {
        "tag": ("type of span", ["LOC", "PER"], "words"), "answer": ("", [], "questions"),
        "pairs": ("class", ["NA", "null"], "rows"),
        "classify": ("class", ["NA", "dos", "null", "tres", "uno"], "rows"),
    }.get(kind, ("", [], ""))  # fmt: skip
    assert (found["called"], [one["name"] for one in found["by_class"]], found["units"]) == expected
    assert bool(found["bins"]) == (kind != "seq2seq")
    assert found["windows"] == (kind in ("tag", "answer"))
    for one in (*found["confident"], *found["worst"]):
        assert one["row"] >= 2  # the line of the file: its first is the header
    assert "<script" not in (tmp_path / "report.html").read_text("utf-8")


def test_words_beyond_what_is_read_at_once_are_tagged_and_counted(
    trained: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _ = trained("tag")
    capsys.readouterr()
    words, tags = (" ".join(row[side] for row in flights(30)) for side in (0, 1))
    data = written(tmp_path / "long.csv", ("words", "tags"), [(words, tags), *flights(3)])
    figures = answered(capsys, "evaluate", str(model), str(data))
    assert figures["words"] == len(words.split()) + sum(len(row[0].split()) for row in flights(3))
    first, *others = answered(capsys, "predict", str(model), str(data))
    assert len(first["predicted_tags"]) == len(words.split()) and len(others) == 3
    assert all(words[span["start"] : span["end"]] == span["text"] for span in first["spans"])
    capsys.readouterr()
    assert main(["report", str(model), str(data), "--out", str(tmp_path / "out"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["in windows"] == 1


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (("a b", "O"), "2 words and 1 tags"),
        (("a b", "O B-TIME"), None),
        (("a b", "O S-LOC"), "'S-LOC' is no tag of BIO"),
    ],
)
def test_tags_that_were_not_learned_count_as_wrong_and_wrong_ones_are_told(
    row: tuple[str, str], says: str | None, trained: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(tmp_path / "rows.csv", ("words", "tags"), [*flights(3), row])
    capsys.readouterr()
    assert main(["evaluate", str(trained("tag")[0]), str(data), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["sentences"] == (4 if says is None else 3)
    assert says is None or f"line 5: {says}" in err


def test_answers_that_do_not_stand_in_their_contexts_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("Who?", "Darcy is.", "Darcy"), ("Who?", "Bob is.", "null"), ("Who?", "Ada is.", "NA")]
    data = written(tmp_path / "rows.csv", ("question", "context", "answer"), rows)
    words = ["train", "answer", str(data), "--out", str(tmp_path / "model"), "--epochs", "1", "--test-share", "0"]
    assert main([*words, "--validation", "0"]) == 0
    assert "2 answers do not stand in their contexts and are not learned from" in capsys.readouterr().err.splitlines()


@pytest.mark.parametrize(
    ("cell", "says"), [("NA", "'NA' is no number"), ("null", "'null' is no number"), ("inf", "'inf' is no number")]
)
def test_what_is_no_number_is_told(
    cell: str, says: str, trained: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(tmp_path / "rows.csv", ("text", "score"), [("good", "1"), ("fine", cell), ("bad", "0")])
    capsys.readouterr()
    assert main(["evaluate", str(trained("number")[0]), str(data), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"] == 2 and f"line 3: {says}" in err


def test_questions_without_an_answer_have_a_threshold_and_long_contexts_windows(
    trained: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = trained("answer")
    capsys.readouterr()
    task = tasks.load(model)
    figures = answered(capsys, "evaluate", str(model), str(data))
    assert task.threshold_ < 1 and figures["rules"] == "SQuAD 2.0"
    assert (figures["answerable"]["questions"], figures["unanswerable"]["questions"]) == (24, 12)
    rows = answered(capsys, "predict", str(model), str(data))
    assert all((row["none"] > task.threshold_) == (row["start"] is None) for row in rows)
    found = answered(capsys, "report", str(model), str(data), "--out", str(tmp_path))
    assert found["in windows"] > 0


def test_one_question_is_answered_from_a_text_a_file_or_not_at_all(
    trained: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, _ = trained("answer")
    capsys.readouterr()
    (_, context, _), (_, without, _) = questions(36)[1], questions(36)[0]
    (tmp_path / "context.txt").write_text(context)
    asked = ("answer", str(model), "--question", "Who is named?", "--context")
    found = answered(capsys, *asked, context)
    assert found == answered(capsys, *asked, str(tmp_path / "context.txt"))
    assert set(found) == {"answer", "start", "end", "probability", "none"}
    task = tasks.load(model)
    for threshold, words in ((0.0, without), (1.0, context)):
        task.threshold_ = threshold
        task.save(tmp_path / "model")
        assert main(["answer", str(tmp_path / "model"), *asked[2:], words, "--format", "human"]) == 0
        out = capsys.readouterr().out
        assert out.startswith("answer " if threshold else "The text has no answer, with a probability of ")
    sure = answered(capsys, "answer", str(tmp_path / "model"), *asked[2:], context)
    assert context[sure["start"] : sure["end"]] == sure["answer"] != ""


def test_what_answers_no_questions_says_what_to_do(
    trained: Callable, tmp_path: Path, refuse: Callable[..., str]
) -> None:
    asked = ("--question", "Who?", "--context", "Darcy is.")
    assert "was trained to tag, and answers no questions" in refuse("answer", str(trained("tag")[0]), *asked, code=2)
    published = str(models.bert(tmp_path / "bert"))
    assert "bert does not answer questions; train one: variorum train answer" in refuse(
        "answer", published, *asked, code=2
    )
    assert "no such file" in refuse("answer", published, "--question", "Who?", "--context", "a.txt", code=3)
    model = str(trained("answer")[0])
    assert "no such file" in refuse("answer", model, "--question", "Who?", "--context", "text.txt", code=3)
    assert "there is nothing to answer" in refuse("answer", model, "--question", "Who?", "--context", " ", code=2)
