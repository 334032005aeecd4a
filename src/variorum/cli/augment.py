"""``variorum augment``: more rows of rare classes to learn from, and what they bring."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import emit, pairs, say
from variorum.cli.rows import Labels, Texts
from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.tasks.augment import Augmenter


@dataclasses.dataclass(frozen=True, kw_only=True)
class Making:
    """How variants are made.

    Args:
        by: Replace words by a masked language model; rephrase by a decoder; or translate there and back.
        replaced: Share of a text's words that are replaced.
        before: What stands before a text to be translated (T5: "translate English to German: ").
        language: The token of the language to translate into, for a model of several.
        back: The model that translates back; the same if absent.
        before_back: As --before, on the way back.
        language_back: As --language, on the way back.
        seed: Of the draws.
    """

    by: Literal["mask", "rephrase", "translate"] = "mask"
    replaced: float = 0.15
    before: str = ""
    language: str | None = None
    back: str | None = None
    before_back: str = ""
    language_back: str | None = None
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measuring:
    """What variants bring to a small model, judged on the evaluation rows.

    Args:
        gain: Learn with and without variants, and print the difference.
        student: The small model: a model reference, or baseline for TF-IDF with logistic regression.
        seeds: Of the small model, each way.
    """

    gain: bool = False
    student: str = "baseline"
    seeds: int = 3


USUAL, UNASKED = Making(), Measuring()


def command(
    data: Path,
    *,
    model: str,
    evaluation: Path,
    out: Path,
    text_column: Texts = "text",
    label_column: Labels = "label",
    share: float = 0.5,
    most: int = 4,
    making: Making = USUAL,
    measuring: Measuring = UNASKED,
    loading: Loading = PLAIN,
) -> None:
    """Add variants of rare classes' texts to rows to learn from; none that is nearly a text of the evaluation rows.

    Args:
        data: The rows to learn from: .csv, .tsv, .jsonl or .parquet. Never the rows that judge.
        model: What makes the variants: a directory, a GGUF file, a spec's name, or org/name in the cache.
        evaluation: The rows that will judge what is learnt; variants that are nearly one of them are dropped.
        out: Where the rows go with their variants; of a variant only the text and the label are known.
        share: Of the largest class's rows, that every other class is brought to.
        most: Variants of one text, at most.
    """
    from variorum.tasks import table
    from variorum.tasks.augment import Wanted, augmented, gain
    from variorum.tasks.trials import Rows, learner

    table.writable(out)
    rows, judges = (table.read(path, [text_column, label_column]) for path in (data, evaluation))
    rows.tell(say)
    given, test = (Rows(one.column(text_column), one.column(label_column)) for one in (rows, judges))
    wanted = Wanted(share=share, most=most, seed=making.seed)
    made = augmented(given, _augmenter(model, making, loading), test.texts, wanted)
    new = zip(made.rows.texts[len(given.texts) :], made.rows.labels[len(given.texts) :], strict=True)
    whole = [row.cells for row in rows.good] + [{text_column: text, label_column: label} for text, label in new]
    table.write(out, whole)
    figures: dict[str, Any] = {
        "file": str(out), "rows": len(given.texts), "variants": len(made.sources), "repeated": made.repeated,
        "near_evaluation_rows": made.leaked, "before": made.before, "after": made.after,
    }  # fmt: skip
    shown = pairs({name: _counted(value) for name, value in figures.items()})
    if measuring.gain:
        from variorum.cli.trials import table_of

        found = gain(learner(measuring.student), given, made, test, seeds=measuring.seeds)
        figures["gain"] = found
        shown += ["", *table_of(found)]
    emit(figures, human="\n".join(shown))


def _augmenter(model: str, making: Making, loading: Loading) -> Augmenter:
    from variorum.cli.loading import load
    from variorum.tasks.augment.replacing import Replacing
    from variorum.tasks.augment.rewriting import Rephrasing, ThereAndBack, Translator

    if making.back is not None and making.by != "translate":
        raise UsageError("only a translation has a way back", where="--back", remedy="give --by translate")
    loaded = load(model, loading)
    if making.by == "mask":
        return Replacing(loaded, share=making.replaced, seed=making.seed)
    if making.by == "rephrase":
        return Rephrasing(loaded, seed=making.seed)
    back = loaded if making.back is None else load(making.back, loading)
    return ThereAndBack(
        Translator(loaded, before=making.before, language=making.language),
        Translator(back, before=making.before_back, language=making.language_back),
        seed=making.seed,
    )


def _counted(value: object) -> object:
    return ", ".join(f"{name} {count:,}" for name, count in value.items()) if isinstance(value, dict) else value
