"""The card of a fine-tuned model: what it does, how it was trained, and what came out, in a page for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from variorum.tasks.estimator import Estimator

NAME = "README.md"


def _written(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def of(estimator: Estimator) -> str:
    """The page, in Markdown."""
    model, history = estimator.model_, getattr(estimator, "history_", None)
    parameters = sum(p.numel() for p in model.parameters())
    lines = [
        f"# {model.spec.name}, fine-tuned to {estimator.kind}",
        "",
        f"{model.spec.cite}. {parameters:,} parameters.",
    ]
    if model.label_names:
        lines += ["", f"Labels, in the order of their scores: {', '.join(model.label_names)}."]
    figures = getattr(estimator, "figures_", None)
    if figures:
        lines += ["", "## Result", "", "On rows that were neither learned from nor used to choose:", ""]
        lines += [f"- {name.replace('_', ' ')}: {_written(value)}" for name, value in figures.items()]
    if history is not None:
        lines += ["", "## Training", "", f"{history.examples:,} examples, {history.learned:,} parameters learned."]
        lines += ["", "| epoch | loss | held out |", "|---|---|---|"]
        lines += [
            f"| {e.epoch} | {e.loss:.4f} | {'' if e.score is None else f'{e.score:.4f}'} |" for e in history.epochs
        ]
        lines += ["", f"The weights are those of epoch {history.best}."]
    lines += [
        "",
        "## Use",
        "",
        "```python",
        "from variorum import tasks",
        "",
        'tasks.load("this directory")',
        "```",
        "",
    ]
    return "\n".join(lines)
