"""``make models``: a nano and a small BERT, GPT-2, T5 and ELECTRA, trained on the novels that are shipped.

Each is one command, whose run lies in ``.cache/models`` and goes on where it was stopped. What came out is written to
``docs/trained/runs.json``; the curves and the table on the page about pretraining are drawn from that file alone.
``python docs/trained.py NAME ...`` carries only some through, and ``--draw`` none.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from variorum.page.charts import WIDE, Series, curves

HERE = Path(__file__).parent
FOLDER, PAGE = HERE / "trained", HERE / "pretraining.md"
RUNS, CACHE = FOLDER / "runs.json", HERE.parent / ".cache" / "models"
TABLE = re.compile(r"(?<=<!-- trained -->\n).*?(?=<!-- end -->)", re.DOTALL)
TONES = {"nano": 2, "small": 4}
VOCAB = 2000
DRAW = "--draw"


@dataclass(frozen=True)
class Run:
    """One command: a model of the family, its scale and its steps."""

    spec: str
    scale: str
    steps: int

    @property
    def name(self) -> str:
        return f"{self.spec}-{self.scale}"

    def command(self, out: str) -> list[str]:
        """What is typed."""
        budget = f"{self.steps}steps"
        told = ["--scale", self.scale, "--vocab", str(VOCAB), "--budget", budget, "--threads", "1", "--out", out]
        return ["variorum", "pretrain", self.spec, "austen", *told]


TRAINED = (
    Run("gpt2", "nano", 1000), Run("bert", "nano", 1200), Run("electra", "nano", 1100), Run("t5", "nano", 800),
    Run("gpt2", "small", 450), Run("bert", "small", 500), Run("electra", "small", 400), Run("t5", "small", 350),
)  # fmt: skip


def trained(run: Run) -> dict[str, Any]:
    """Carry ``run`` through, on one thread; what it was, what it took, and every evaluation."""
    from variorum.training.rundir import read_run
    from variorum.training.session import assemble

    folder = CACHE / run.name
    subprocess.run(run.command(str(folder)), check=True, stdout=subprocess.DEVNULL)
    plan = read_run(folder)[1]
    session = assemble(plan, folder)
    speed = _rows(folder / "speed.jsonl")
    steps = [row["step"] for row in speed]
    spent = (b - a for a, b in zip([0, *steps], steps, strict=False))
    return {
        "name": run.name,
        "parameters": sum(p.numel() for p in session.model.parameters()),
        "steps": plan.steps,
        "minutes": sum(n * row["seconds_per_step"] for n, row in zip(spent, speed, strict=True)) / 60,
        "by_frequency": session.guessed(),
        "scores": [row for row in _rows(folder / "metrics.jsonl") if "held_out" in row],
    }


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def files(found: Sequence[dict[str, Any]]) -> dict[Path, str]:
    """Every file that is drawn from the runs, with what it has to hold."""
    made = {}
    for spec in dict.fromkeys(run.spec for run in TRAINED):
        if not (lines := [one for one in found if one["name"].startswith(f"{spec}-")]):
            continue
        learned = [Series(name=_scale(one), tone=TONES[_scale(one)], points=_points(one)) for one in lines]
        made[FOLDER / f"{spec}.svg"] = _drawn([*learned, *_guesses(lines)], "nats a word", f"{spec}: held-out loss")
    if verdicts := [line for one in found if "judged" in one["scores"][-1] for line in _verdicts(one)]:
        made[FOLDER / "electra-judged.svg"] = _drawn(verdicts, "nats a token", "electra: which tokens are replaced")
    pictures = [f"![{path.stem}](trained/{path.name})" for path in made]
    shown = "\n".join(["", *_table(found), "", *pictures, "", ""])
    made[PAGE] = TABLE.sub(lambda _: shown, PAGE.read_text("utf-8"))
    return made


def _scale(one: dict[str, Any]) -> str:
    return str(one["name"].rpartition("-")[2])


def words(score: dict[str, float]) -> tuple[float, float, float]:
    """The loss of words, and the ends of its interval: where there are several terms, the first."""
    name = "words" if "words" in score else ""
    return (score[name or "held_out"], *(score[f"{name}_{end}" if name else end] for end in ("low", "high")))


def _points(one: dict[str, Any]) -> tuple[tuple[float, float, float, float], ...]:
    return tuple((score["step"], *words(score)) for score in one["scores"])


def _guesses(lines: Sequence[dict[str, Any]]) -> Iterator[Series]:
    """A level line: what one who knows only how often words occur would lose."""
    last = max(one["steps"] for one in lines)
    level = lines[-1]["by_frequency"]
    yield Series(name="by frequency", tone=0, points=tuple((x, level, level, level) for x in (0, last)))


def _verdicts(one: dict[str, Any]) -> Iterator[Series]:
    """ELECTRA's own loss, above it that of saying of every token how many are replaced."""
    name, tone = _scale(one), TONES[_scale(one)]
    points = ((s["step"], s["judged"], s["judged_low"], s["judged_high"]) for s in one["scores"])
    yield Series(name=name, tone=tone, points=tuple(points))
    share = ((s["step"], *[entropy(s["replaced"])] * 3) for s in one["scores"])
    yield Series(name=f"{name}, by the share", tone=0, points=tuple(share))  # type: ignore[arg-type]


def entropy(share: float) -> float:
    """Nats that a yes or no has, of which ``share`` are yes."""
    return -sum(p * math.log(p) for p in (share, 1 - share) if p > 0)


def _drawn(series: Sequence[Series], unit: str, title: str) -> str:
    """A drawing as a file of its own, in the colours of our pages."""
    drawing = str(curves(series, width=WIDE, x_label="step", y_label=f"held-out loss, {unit}", title=title))
    page = resources.files("variorum.page").joinpath("page.css").read_text("utf-8")
    style = re.findall(r"^(?::root|@media \(prefers-color-scheme).*?^\}|^svg [^\n]*", page, re.MULTILINE | re.DOTALL)
    paper = '<rect width="100%" height="100%" fill="var(--paper)"/>'
    opened = drawing.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return opened.replace("</title>", "</title><style>" + "\n".join(style) + f"</style>{paper}", 1) + "\n"


def _table(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| run | parameters | steps | minutes | held-out loss | by frequency | told apart |"
    yield "|---|---|---|---|---|---|---|"
    for one in found:
        loss, low, high = words(score := one["scores"][-1])
        judged = ""
        if "judged" in score:
            judged = f"{score['judged']:.3f} ({score['judged_low']:.3f} to {score['judged_high']:.3f}), "
            judged += f"{entropy(score['replaced']):.3f} by the share"
        yield (
            f"| {one['name']} | {one['parameters']:,} | {one['steps']:,} | {one['minutes']:.1f} "
            f"| {loss:.3f} ({low:.3f} to {high:.3f}) | {one['by_frequency']:.3f} | {judged} |"
        )


def main(names: Sequence[str]) -> None:
    """Train what is asked for, write down what came out, draw."""
    known = {run.name: run for run in TRAINED}
    found = {one["name"]: one for one in json.loads(RUNS.read_text("utf-8"))} if RUNS.exists() else {}
    for name in names:
        print(shlex.join(known[name].command(f"runs/{name}")))
        found[name] = trained(known[name])
        ordered = [found[run.name] for run in TRAINED if run.name in found]
        RUNS.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
    for path, text in files(json.loads(RUNS.read_text("utf-8"))).items():
        path.write_text(text, "utf-8")
        print(path.relative_to(HERE.parent))


if __name__ == "__main__":
    main([] if sys.argv[1:] == [DRAW] else sys.argv[1:] or [run.name for run in TRAINED])
