"""``python docs/recipe.py [FOLDER] [--rows N] [--model M] [--decoder M]``: a classification project from rows to watch.

The seven steps that a good practitioner takes, on the spam mails with one spam among twenty: audit, baseline, figures,
remedies for the rare class, fine-tuning, labels by a language model, and errors and drift. Each step is a command that
anyone can give, shown as it is given. With ``--rows`` so many mails are taken, to see that all works.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.tools import datasets, weights  # noqa: E402
from variorum.tasks import table  # noqa: E402
from variorum.tasks.audit.duplicates import near  # noqa: E402
from variorum.tasks.baselines.linear import Logistic, Machine  # noqa: E402
from variorum.tasks.metrics.classes import confusion  # noqa: E402

RARE, USUAL, ONE_IN = "spam", "ham", 20
PARTS = {"learn": 0.6, "test": 0.2, "later": 0.2}
ASKED = 60
"""Rows that a language model labels, and rows that people have labelled for it; a quarter of them rare."""
TOKENS = 128
Row = dict[str, str]


def rare(rows: Sequence[Row], count: int | None) -> list[Row]:
    """All usual mails, or as many as are asked for, and one rare one for every twenty of them, in a drawn order."""
    drawn = random.Random(0)
    kinds = {name: [row for row in rows if row["label"] == name] for name in (USUAL, RARE)}
    usual = kinds[USUAL] if count is None else drawn.sample(kinds[USUAL], count * ONE_IN // (ONE_IN + 1))
    found = [*usual, *drawn.sample(kinds[RARE], max(10, len(usual) // ONE_IN))]
    return drawn.sample(found, len(found))


def parted(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each part, each class by its share; mails that are nearly the same are all in one part."""
    leader = {place: members[0] for members in near([row["text"] for row in rows]) for place in members}
    made: dict[str, list[Row]] = {name: [] for name in PARTS}
    for label in (USUAL, RARE):
        groups: dict[int, list[Row]] = {}
        for place, row in enumerate(rows):
            first = leader.get(place, place)
            if rows[first]["label"] == label:
                groups.setdefault(first, []).append(row)
        ends = [
            sum(list(PARTS.values())[: number + 1]) * sum(map(len, groups.values())) for number in range(len(PARTS))
        ]
        taken, drawn = 0, list(groups.values())
        random.Random(1).shuffle(drawn)  # first come, first served would leave few mails with a like to the last part
        for members in drawn:
            name = next((name for name, end in zip(PARTS, ends, strict=True) if taken < end), list(PARTS)[-1])
            made[name] += members
            taken += len(members)
    return made


def step(title: str, *commands: Sequence[str], allowed: Sequence[int] = (0,)) -> None:
    """Give the commands and show what they say; ends if one fails."""
    heading(title)
    for words in commands:
        print(f"$ variorum {' '.join(words)}", flush=True)
        done = subprocess.run([sys.executable, "-m", "variorum", *words], check=False)
        if done.returncode not in allowed:
            sys.exit(f"ended with {done.returncode}: variorum {' '.join(words)}")


def heading(title: str) -> None:
    """Say which step comes, and when."""
    print(f"\n== {title} ({time.strftime('%H:%M:%S')})", flush=True)


def baseline(learn: Sequence[Row], test: Sequence[Row]) -> None:
    """Steps 2 and 3: two linear models of words, and figures of each class."""
    from sklearn.metrics import classification_report

    heading("2, 3  TF-IDF with logistic regression and linear SVM; precision, recall and F1 of each class")
    texts, truth = [row["text"] for row in test], [row["label"] for row in test]
    for one in (Logistic(), Machine()):
        told = one.fit([row["text"] for row in learn], [row["label"] for row in learn]).predict(texts)
        print(one.name)
        print(classification_report(truth, told, digits=4, zero_division=0))
        names = [USUAL, RARE]
        print(f"taken for {names}: {confusion([*map(names.index, truth)], [*map(names.index, told)], 2).tolist()}")
        print(f"speaks for {RARE}: {', '.join(word for word, _ in one.top(12).get(RARE, []))}\n")


def recipe(folder: Path, count: int | None, model: str, decoder: str) -> None:
    """All seven steps; what they write goes to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = parted(rare(datasets.spam(), count))
    files = {name: folder / f"{name}.csv" for name in PARTS}
    for name, rows in parts.items():
        table.write(files[name], [{"text": row["text"], "label": row["label"]} for row in rows])
    learn, test, later = (str(files[name]) for name in PARTS)
    gold, pool = folder / "gold.csv", folder / "unlabelled.csv"
    kinds = [[row for row in parts["learn"] if row["label"] == name] for name in (RARE, USUAL)]
    shown = [*kinds[0][: ASKED // 2], *kinds[1][: ASKED * 3 // 2]]
    table.write(gold, [{"text": row["text"], "label": row["label"]} for row in shown[::2]])
    table.write(pool, [{"text": row["text"]} for row in shown[1::2]])
    trained, best = str(folder / "plain"), str(folder / "model")

    step("1  audit", ["audit", learn, "--test", test, "--model", model])
    baseline(parts["learn"], parts["test"])
    usual = ["train", "classify", learn, "--test", test, "--model", model, "--max-length", str(TOKENS),
             "--learning-rate", "1e-4"]  # fmt: skip
    step("5  fine-tuned as it is", [*usual, "--out", trained])
    step("4  with weights, thresholds, calibration, and a tenth left to people",
         [*usual, "--out", best, "--class-weight", "balanced", "--thresholds", "macro_f1", "--calibrate",
          "--budget", "0.1"])  # fmt: skip
    step("6  few labels: a language model labels, and what that is worth",
         ["label", str(pool), "--model", decoder, "--labels", f"{USUAL},{RARE}", "--out", str(folder / "labelled.csv"),
          "--gold", str(gold), "--test", test, "--max-length", "64"])  # fmt: skip
    step("7  errors; later mails: answers, and those that people must look at",
         ["report", best, test, "--train", learn, "--seeds", trained, "--out", str(folder / "report")],
         ["predict", best, later, "--out", str(folder / "answers.csv"), "--queue", str(folder / "queue.jsonl")],
    )  # fmt: skip
    step("7  later mails: has anything changed? (6 says yes)", ["monitor", best, later], allowed=(0, 6))
    print(f"\neverything is in {folder}")


def main(words: Sequence[str]) -> None:
    """Read the command line."""
    places = {name: weights.path(name) for name in ("minilm", "smollm2", "spam")}
    known = argparse.ArgumentParser(prog="python docs/recipe.py", description=(__doc__ or "").split("\n\n")[1])
    known.add_argument("folder", nargs="?", type=Path, default=ROOT / ".cache/recipe", help="where all goes")
    known.add_argument("--rows", type=int, help="so many mails, instead of all")
    known.add_argument("--model", default=places["minilm"], help="the model to fine-tune; MiniLM if absent")
    known.add_argument("--decoder", default=places["smollm2"], help="the model that labels; SmolLM2 if absent")
    told = known.parse_args(words)
    if None in (told.model, told.decoder, places["spam"]):
        sys.exit("mails, MiniLM or SmolLM2 are not here; `make fetch` brings them")
    decoder = Path(told.decoder)
    gguf = next(decoder.glob("*.gguf"), decoder) if decoder.is_dir() else decoder
    recipe(told.folder, told.rows, str(told.model), str(gguf))


if __name__ == "__main__":
    main(sys.argv[1:])
