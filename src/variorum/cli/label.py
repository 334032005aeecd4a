"""``variorum label``: labels for a table by a model that was never trained on them, and how far people agree."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import chosen, emit, say
from variorum.cli.rows import Texts
from variorum.errors import DamagedFile, NotFound, UsageError, nearest

if TYPE_CHECKING:
    from variorum.tasks.labelling.job import Job
    from variorum.tasks.trials import Rows
    from variorum.tasks.zero_shot import Candidate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asking:
    """How the model is asked.

    Args:
        words: A JSON file with the words that stand for each label before the model, where that is not its name.
        template: A JSON file with the words around a text and a label: instruction, question, answer, description.
        few_shot: Examples of the gold sample that are shown first, of each label in turn; by a prompt only.
        by: Score labels after a prompt, at a mask, or by their descriptions; as the model's head allows if absent.
        prior: The leaning that is divided out: of texts without content, of all texts together, or none.
        margin: Give no label where the best one is not so much more probable than the next.
        max_length: Tokens of a text that are read.
        seed: Of the choice of examples.
    """

    words: Path | None = None
    template: Path | None = None
    few_shot: int = 0
    by: Literal["prompt", "mask", "description"] | None = None
    prior: Literal["content-free", "texts", "none"] = "content-free"
    margin: float = 0.0
    max_length: int = 256
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Student:
    """What the labels are worth to a small model that learns from them.

    Args:
        test: Held-out rows labelled by people; the small model learns from the gold sample, from the new labels, and
            from both, and is judged on these.
        student: The small model: a model reference, or baseline for TF-IDF with logistic regression.
        seeds: Of the small model, each way.
    """

    test: Path | None = None
    student: str = "baseline"
    seeds: int = 3


USUAL, NONE = Asking(), Student()


def command(
    data: Path,
    *,
    model: str,
    labels: str,
    out: Path,
    text_column: Texts = "text",
    label_column: str = "label",
    gold: Path | None = None,
    asking: Asking = USUAL,
    student: Student = NONE,
    loading: Loading = PLAIN,
) -> None:
    """Label a table with a model that was never trained on the labels, and measure how far people agree.

    Each row gets a label, or none where the model is unsure, and a confidence, by which train weighs it.

    Args:
        data: The rows to label: .csv, .tsv, .jsonl or .parquet, or - for stdin.
        model: A directory, a GGUF file, a spec's name, or org/name in the cache: a decoder or an encoder-decoder, which
            scores labels after a prompt; a masked language model; or an encoder, which compares vectors.
        labels: Names of the labels, with commas between them.
        out: Where the rows go with their labels: .csv, .tsv, .jsonl or .parquet.
        label_column: The column that labels are written to, and that holds people's in the gold sample.
        gold: Rows that people have labelled; agreement is measured on those that are not shown as examples.
    """
    from variorum.tasks import table

    job = _job([name for one in labels.split(",") if (name := one.strip())], asking)
    if gold is None and (asking.few_shot or student.test is not None):
        raise UsageError("--few-shot and --test need labels by people", remedy="give --gold")
    table.writable(out)
    rows = table.read(data, [text_column])
    if label_column in rows.columns:
        raise UsageError(
            f"has a column {label_column!r} already", where=str(data), remedy="give another --label-column"
        )
    rows.tell(say)
    known, test = (
        None if path is None else _labelled(path, text_column, label_column, job) for path in (gold, student.test)
    )
    from variorum.cli.loading import load
    from variorum.tasks.labelling.job import run

    texts = rows.column(text_column)
    found = run(load(model, loading), texts, job, known)
    own = found.labelled
    confidences = [float(sure) for sure in own.confidence]
    answers = [{label_column: label, "confidence": sure} for label, sure in zip(own.labels, confidences, strict=True)]
    table.write(out, rows.answered(answers))
    figures = {
        "file": str(out), "rows": len(rows.rows), "labelled": len(texts) - own.withheld, "withheld": own.withheld,
        "cut": found.cut, "bad_rows": len(rows.bad), "agreement": found.agreement,
    }  # fmt: skip
    if known is not None and test is not None:
        from variorum.tasks.labelling.worth import weighted, worth
        from variorum.tasks.trials import learner

        given = weighted(texts, own)
        figures["worth"] = worth(learner(student.student), known, given, test, seeds=student.seeds)
    emit(figures, human=_told(figures) if chosen() == "human" else None)


def _job(names: list[str], asking: Asking) -> Job:
    from variorum.tasks.labelling.correction import Correction
    from variorum.tasks.labelling.job import Job
    from variorum.tasks.zero_shot import Template, read_template

    return Job(
        candidates=_candidates(names, asking.words),
        template=Template() if asking.template is None else read_template(asking.template),
        way=asking.by,
        correction=Correction(by=asking.prior, margin=asking.margin),
        few_shot=asking.few_shot,
        max_length=asking.max_length,
        seed=asking.seed,
    )


def _candidates(names: list[str], words: Path | None) -> list[Candidate]:
    from variorum.tasks.zero_shot import Candidate

    try:
        said = {} if words is None else json.loads(words.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise NotFound("no such file", where=str(words)) from None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not all(isinstance(one, str) for one in said.values()):
        raise DamagedFile("is no JSON object of labels and their words", where=str(words))
    for name in said:
        if name not in names:
            raise NotFound(f"no label is called {name!r}", where=str(words), remedy=nearest(name, names))
    return [Candidate(name, said.get(name, "")) for name in names]


def _labelled(path: Path, text_column: str, label_column: str, job: Job) -> Rows:
    """Rows with labels by people, which have to be among those that are asked for."""
    from variorum.tasks import table
    from variorum.tasks.trials import Rows

    rows = table.read(path, [text_column, label_column])
    rows.tell(say)
    names = [one.name for one in job.candidates]
    for row in rows.good:
        label = row.cells[label_column]
        if label not in names:
            raise NotFound(f"label {label!r:.60} is not asked for", where=f"{path}, line {row.line}",
                           remedy=nearest(label, names) or "name it in --labels")  # fmt: skip
    return Rows(rows.column(text_column), rows.column(label_column))


def _told(figures: dict[str, Any]) -> str:
    from variorum.cli.output import pairs
    from variorum.cli.trials import table_of

    lines = pairs({name: value for name, value in figures.items() if name not in ("agreement", "worth")})
    agreed = figures["agreement"]
    if agreed is not None:
        lines += [
            f"agreement on {agreed.answered:,} of {agreed.items:,} rows labelled by people",
            f"  accuracy  {agreed.accuracy.said()}",
            f"  kappa     {agreed.kappa.said()}",
        ]
    if "worth" in figures:
        lines += ["", *table_of(figures["worth"])]
    return "\n".join(lines)
