"""``variorum experts``: how often each expert of a sparse model is chosen, layer by layer, for your texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import Column, chosen, emit
from variorum.cli.reading import Option
from variorum.cli.texts import texts_of
from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.inference.experts import Usage

FEW = 8


def command(
    model: str,
    *,
    text: Annotated[tuple[str, ...], Option(many=True)] = (),
    file: Path | None = None,
    column: str = "text",
    batch_size: int = 32,
    loading: Loading = PLAIN,
) -> None:
    """How often each expert is chosen for your texts, layer by layer; padding is not counted.

    Texts come from --text, from --file, or one a line from stdin.

    Args:
        model: A directory, a spec's name, or org/name in the cache; a decoder or encoder with experts.
        text: One text, or several.
        file: A .txt with one text a line, or a .csv, .tsv or .jsonl with a column of texts.
        column: The column of a .csv, .tsv or .jsonl that holds the texts.
        batch_size: Texts at a time.
    """
    if batch_size < 1:
        raise UsageError(f"--batch-size {batch_size} holds no text", remedy="give 1 or more")
    texts = texts_of(text, file, column)
    from variorum.cli.loading import load
    from variorum.inference.experts import expert_usage

    found = expert_usage(load(model, loading), texts, batch_size=batch_size)
    if chosen() == "human":
        few = len(found[0].chosen) <= FEW
        columns = ["layer", "tokens", *([] if few else ["busiest", "idlest"]), "unused", "imbalance"]
        emit([_row(one, few=few) for one in found], columns=[*map(Column, columns), *_experts(found[0], few=few)])
        return
    emit(
        [
            {"layer": one.layer, "expert": expert, "chosen": count, "share": share, "tokens": one.tokens}
            for one in found
            for expert, (count, share) in enumerate(zip(one.chosen, one.shares, strict=True))
        ]
    )


def _experts(one: Usage, *, few: bool) -> list[Column]:
    """A column for each expert, where they are few enough to stand side by side."""
    return [Column(str(expert)) for expert in range(len(one.chosen))] if few else []


def _row(one: Usage, *, few: bool) -> dict[str, object]:
    shares = one.shares
    most, least = (best(range(len(shares)), key=shares.__getitem__) for best in (max, min))
    row: dict[str, object] = {
        "layer": one.layer, "tokens": one.tokens, "unused": one.chosen.count(0), "imbalance": round(one.imbalance, 2),
    }  # fmt: skip
    if few:
        return row | {str(expert): f"{share:.1%}" for expert, share in enumerate(shares)}
    return row | {"busiest": f"{most} ({shares[most]:.1%})", "idlest": f"{least} ({shares[least]:.1%})"}
