"""``python docs/bakeoffs.py [spam|sentiment ...] [--rows N]``: bake-offs on real tables under a ceiling of latency.

TF-IDF, MiniLM, BERT-tiny and a nano BERT that ``make models`` trained, all fine-tuned, and SmolLM2 by prompt, three
seeds each, on a sample of rows that a single thread learns in a quarter of an hour. Figures go to
``docs/trained/bakeoffs.json`` and with the recommendation into ``docs/studies.md``; with ``--rows`` nothing is written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import marked
import tuned

from tests.tools import weights

ROOT = Path(__file__).parents[1]
FIGURES, PAGE = ROOT / "docs/trained/bakeoffs.json", ROOT / "docs/studies.md"
BEGIN, END = "<!-- figures of docs/bakeoffs.py -->", "<!-- end of figures -->"
CEILING = "50ms"
USUAL = ("--seeds", "3", "--epochs", "3", "--rates", "2e-4", "1e-3", "--workers", "1")
Told = dict[str, Any]
TABLES: dict[str, Told] = {
    "spam": {"rows": 600, "words": ("--max-length", "128")},
    "sentiment": {"rows": 1200, "words": ("--max-length", "64", "--columns", "label=domain")},
}
"""Rows that are drawn of each table, and how they are read."""


def models() -> list[str]:
    """The arms beside the baseline, as the command line says them."""
    minilm, tiny, smol = (weights.path(name) for name in ("minilm", "bert-tiny", "smollm2"))
    nano = ROOT / ".cache/models/bert-nano"
    if minilm is None or tiny is None or smol is None or not nano.is_dir():
        sys.exit("`make fetch` brings the weights, `make models` the nano BERT")
    writer = next(smol.glob("*.gguf"))
    return [f"MiniLM: {minilm}", f"BERT-tiny: {tiny}", f"nano BERT: {nano}", f"SmolLM2, asked: prompt:{writer}"]


def held(name: str, rows: int | None) -> Told:
    """One of ``TABLES``: what ``variorum choose`` says of it."""
    told = TABLES[name]
    data = tuned.table(name, rows or told["rows"])
    out = ROOT / ".cache/bakeoffs" / data.stem
    words = [sys.executable, "-m", "variorum", "choose", str(data), "--models", *models(), "--latency", CEILING,
             *USUAL, *told["words"], "--out", str(out), "--format", "json"]  # fmt: skip
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    found: Told = json.loads(done.stdout)
    [study] = found["studies"]
    kept = ("title", "mean", "costs", "front", "by_seed")
    return {
        "budget": study["budget"], "items": study["items"], "opening": found["opening"],
        "sentences": found["choice"]["sentences"], "arms": [{key: arm[key] for key in kept} for arm in study["arms"]],
        "claims": [claim["sentence"] for claim in study["claims"]],
    }  # fmt: skip


def page(figures: dict[str, Told]) -> str:
    """The tables and recommendations, in Markdown."""
    lines = []
    for name, told in figures.items():
        lines += [
            f"**{name}** ({told['budget']}; {told['items']}; one text in {CEILING} or less)", "",
            "| arm | macro-F1, each seed | p50 ms | p95 ms | texts/s | memory MB | disk MB | MFLOP/text | training s"
            " | front |", "|---|" + "---|" * 9,
        ]  # fmt: skip
        for arm in told["arms"]:
            costs, seeds = arm["costs"], " ".join(f"{100 * value:.1f}" for value in arm["by_seed"].values())
            flops = "" if costs["flops"] is None else f"{costs['flops'] / 1e6:,.0f}"
            lines.append(
                f"| {arm['title']} | {100 * arm['mean']:.1f} ({seeds}) | {1e3 * costs['latency']:.1f} |"
                f" {1e3 * costs['latency_95']:.1f} | {costs['throughput']:,.0f} | {costs['memory'] / 1e6:,.0f} |"
                f" {costs['disk'] / 1e6:,.1f} | {flops} | {costs['training']:,.1f} | {', '.join(arm['front'])} |"
            )
        lines += ["", " ".join(told["sentences"]), ""]
    return "\n".join(lines).rstrip()


def main(words: list[str]) -> None:
    """Hold what is named, or all."""
    rows = int(words.pop(words.index("--rows") + 1)) if "--rows" in words else None
    names = [word for word in words if word != "--rows"] or list(TABLES)
    for name in names:
        found = held(name, rows)
        known: dict[str, Told] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
        known[name] = found
        if rows is None:
            FIGURES.write_text(json.dumps(known, indent=1) + "\n")
            marked.write(PAGE, BEGIN, END, page(known))
        else:
            print(page({name: known[name]}))


if __name__ == "__main__":
    main(sys.argv[1:])
