"""``python docs/tuned.py [NAME ...] [--rows N]``: MiniLM fine-tuned to real tables, three seeds each, beside baselines.

Figures go to ``docs/trained/tuned.json`` and into the table of ``docs/tasks.md``. With ``--rows`` the first N rows of
each table in a shuffled order are taken, to see that all works, and nothing is written into the page.
"""

from __future__ import annotations

import csv
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import marked

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.tools import datasets, weights  # noqa: E402
from variorum.tasks.job import Asked, train  # noqa: E402

FOLDER, FIGURES, PAGE = ROOT / ".cache/datasets", ROOT / "docs/trained/tuned.json", ROOT / "docs/tasks.md"
BEGIN, END = "<!-- figures of docs/tuned.py -->", "<!-- end of figures -->"
SEEDS, EPOCHS, RATE = 3, 2, 1e-4
Told = dict[str, Any]
TASKS: dict[str, Told] = {
    "spam": {"table": "spam", "kind": "classify", "max_length": 128},
    "domain": {"table": "sentiment", "kind": "classify", "names": {"label": "domain"}, "max_length": 64,
               "epochs": 1},
    "rating": {"table": "sentiment", "kind": "number", "names": {"score": "rating"}, "max_length": 64,
               "epochs": 1},
    "privacy": {"table": "privacy", "kind": "pairs", "names": {"text1": "question", "text2": "context"},
                "max_length": 128, "epochs": 1},
    "conll": {"table": "conll", "kind": "tag", "max_length": 128, "epochs": 20, "learning_rate": 3e-4},
    "disfl": {"table": "disfl", "kind": "answer", "max_length": 256, "epochs": 4},
}  # fmt: skip
"""What is learned: the table, the kind of task, its columns where they have other names, tokens that are read."""


def table(name: str, rows: int | None) -> Path:
    """The table as a file, or some of its rows."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    whole = FOLDER / f"{name}.csv"
    if not whole.exists():
        datasets.write(name, FOLDER)
    if rows is None:
        return whole
    csv.field_size_limit(2**27)
    with whole.open(newline="", encoding="utf-8") as file:
        header, *found = csv.reader(file)
    random.Random(0).shuffle(found)
    some = FOLDER / f"{name}-{rows}.csv"
    with some.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *found[:rows]])
    return some


def learned(name: str, rows: int | None) -> Told:
    """Train one of ``TASKS`` and give its figures."""
    told, place = TASKS[name], weights.path("minilm")
    if place is None:
        sys.exit("the weights of minilm are not here; `make fetch` brings them")
    usual = {"epochs": EPOCHS, "learning_rate": RATE}
    parameters = {"model": str(place), "max_length": told["max_length"], "verbose": 1, "precision": "bfloat16",
                  **{key: told.get(key, value) for key, value in usual.items()}}  # fmt: skip
    asked = Asked(kind=told["kind"], data=table(told["table"], rows), parameters=parameters,
                  names=told.get("names", {}), seeds=SEEDS)  # fmt: skip
    begun = time.perf_counter()
    found = train(asked, ROOT / ".cache/tuned" / name, say=lambda line: print(line, file=sys.stderr, flush=True))
    found[0]["model"] = "MiniLM"
    return {"kind": told["kind"], "seconds": time.perf_counter() - begun, "rows": found}


def page(figures: dict[str, Told]) -> str:
    """The table of all figures, in Markdown."""
    lines = [
        "| table | model | figure | value | 95 % over items | over seeds | model − baseline |",
        "|---|" + "---|" * 6,
    ]
    for name, told in figures.items():
        for row in told["rows"]:
            figure = next(key for key in row if key != "model")
            seeds = f"{row['seed_low']:.4f} to {row['seed_high']:.4f}" if "seeds" in row else ""
            gain = f"{row['beaten_by']:+.4f} ({row['from']:+.4f} to {row['to']:+.4f})" if "beaten_by" in row else ""
            value = row.get("seed_mean", row[figure])
            lines.append(f"| {name} | {row['model']} | {figure.replace('_', ' ')} | {value:.4f} | {row['low']:.4f} to"
                         f" {row['high']:.4f} | {seeds} | {gain} |")  # fmt: skip
    return "\n".join(lines)


def main(words: list[str]) -> None:
    """Do what is named, or all."""
    rows = int(words.pop(words.index("--rows") + 1)) if "--rows" in words else None
    names = [word for word in words if word != "--rows"] or list(TASKS)
    for name in names:
        found = learned(name, rows)
        known: dict[str, Told] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
        known = {one: told for one in TASKS if (told := found if one == name else known.get(one))}
        if rows is None:
            FIGURES.write_text(json.dumps(known, indent=1) + "\n")
            marked.write(PAGE, BEGIN, END, page(known))
        else:
            print(page({name: found}))


if __name__ == "__main__":
    main(sys.argv[1:])
