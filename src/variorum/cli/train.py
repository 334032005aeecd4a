"""``variorum train``: a model fine-tuned to a task on a table, with its figures beside a baseline's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from variorum.cli.figures import human
from variorum.cli.output import emit, say
from variorum.cli.reading import Option, Verbs
from variorum.cli.rows import Data, Device, First, Labels, Numbers, Out, Second, Start, Texts, Writer

if TYPE_CHECKING:
    from variorum.tasks.job import Kept


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learning:
    """How it is trained; what is left out is as the task has it.

    Args:
        epochs: Times that every row is read.
        batch_size: Rows of a step.
        learning_rate: At its peak.
        warmup: Share of the steps over which it rises.
        weight_decay: Of matrices.
        patience: End after so many epochs without a better score on the rows held out.
        max_length: Tokens of a text that are read.
        adapt: What learns: full, head, freeze:LAYERS, decay:FACTOR or lora:RANK.
        precision: Of products while it learns; bfloat16 is faster where the processor has it.
        checkpoints: A folder for a snapshot after each epoch; the same command, killed, goes on from there.
        validation: Share of the rows that is held out to choose the best epoch.
        seed: Of first values, the split, the order of rows and dropout.
        seeds: How often it is trained, a seed each time; the best by the rows held out is kept.
    """

    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    warmup: float | None = None
    weight_decay: float | None = None
    patience: int | None = None
    max_length: int | None = None
    adapt: str | None = None
    precision: Literal["float32", "bfloat16"] | None = None
    checkpoints: str | None = None
    validation: float | None = None
    seed: int = 0
    seeds: int = 1
    device: Device = "cpu"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Testing:
    """What the figures are of.

    Args:
        test: Rows that nobody learns from.
        test_share: Without --test, the share of the rows that is kept for that; 0 for no figures.
    """

    test: str | None = None
    test_share: float = 0.2

    def kept(self) -> Kept:
        """The same as a job takes it."""
        from variorum.tasks.job import Kept

        return Kept(test=self.test, share=self.test_share)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deciding:
    """How rare classes are helped, and how scores become answers.

    Args:
        separator: What stands between the labels of one row, where it may have several.
        class_weight: Losses weigh as much as their class is rare.
        focus: The exponent of focal loss.
        oversample: Share of the largest class's rows that the others are brought to by reading rows again.
        thresholds: What they are tuned for on the rows held out.
        calibrate: Find the temperature at which probabilities can be believed.
        risk: Answer only where at most this share of answers is wrong.
        budget: Leave this share of rows, the least certain ones, to people.
        abstain_below: Give no answer below this confidence.
    """

    separator: str = ""
    class_weight: Literal["balanced"] | None = None
    focus: float = 0.0
    oversample: float = 0.0
    thresholds: Literal["macro_f1"] | None = None
    calibrate: bool = False
    risk: float | None = None
    budget: float | None = None
    abstain_below: float = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Further:
    """What else is learned from, and by how much a row counts.

    Args:
        add: A queue whose answered items are learned from too.
        weight_column: The column by which rows count, such as the confidence that label writes; all alike if absent.
    """

    add: Path | None = None
    weight_column: str = ""


AS_USUAL, TESTED, PLAINLY, NO_MORE = Learning(), Testing(), Deciding(), Further()


def classify(
    data: Data, *, out: Out, model: Start = "nano", text_column: Texts = "text", label_column: Labels = "label",
    learning: Learning = AS_USUAL, testing: Testing = TESTED, deciding: Deciding = PLAINLY,
    further: Further = NO_MORE,
) -> None:  # fmt: skip
    """Texts to labels."""
    names = {"text": text_column, "label": label_column}
    trained("classify", data, out, model, names, learning, testing, dataclasses.asdict(deciding), further)


def pairs(
    data: Data, *, out: Out, model: Start = "nano", text1_column: First = "text1", text2_column: Second = "text2",
    label_column: Labels = "label", learning: Learning = AS_USUAL, testing: Testing = TESTED,
    deciding: Deciding = PLAINLY, further: Further = NO_MORE,
) -> None:  # fmt: skip
    """Pairs of texts to labels."""
    names = {"text1": text1_column, "text2": text2_column, "label": label_column}
    trained("pairs", data, out, model, names, learning, testing, dataclasses.asdict(deciding), further)


def number(
    data: Data, *, out: Out, model: Start = "nano", text_column: Texts = "text", score_column: Numbers = "score",
    learning: Learning = AS_USUAL, testing: Testing = TESTED,
) -> None:  # fmt: skip
    """Texts to numbers."""
    trained("number", data, out, model, {"text": text_column, "score": score_column}, learning, testing)


def pairs_number(
    data: Data, *, out: Out, model: Start = "nano", text1_column: First = "text1", text2_column: Second = "text2",
    score_column: Numbers = "score", learning: Learning = AS_USUAL, testing: Testing = TESTED,
) -> None:  # fmt: skip
    """Pairs of texts to numbers."""
    names = {"text1": text1_column, "text2": text2_column, "score": score_column}
    trained("pairs-number", data, out, model, names, learning, testing)


def embed(
    data: Data, *, out: Out, model: Start = "nano", text1_column: First = "text1", text2_column: Second = "text2",
    score_column: str = "", pooling: Literal["mean", "cls", "max"] | None = None, learning: Learning = AS_USUAL,
    testing: Testing = TESTED,
) -> None:  # fmt: skip
    """Pairs of texts to vectors: those that belong together, or with --score-column how alike they are.

    Args:
        score_column: The column of numbers, the larger the more alike; none where all pairs belong together.
        pooling: Which vector stands for a text; as the checkpoint says, or else the mean of its tokens', if absent.
    """
    names = {"text1": text1_column, "text2": text2_column} | ({"score": score_column} if score_column else {})
    kind = "embed-score" if score_column else "embed"
    trained(kind, data, out, model, names, learning, testing, {"pooling": pooling})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tagging:
    """How tags are read and words taught.

    Args:
        scheme: BIO, IOB1, BIOES, BILOU or IO; auto sees it from the tags, none takes tags as classes of words.
        mode: How tags that the scheme does not allow are read and scored.
        pieces: Which tokens of a word are taught its tag.
        path: Take the likeliest tag of each word, or the likeliest ones that the scheme allows together.
        stride: Tokens from one window of a long sentence to the next; half a window if absent.
        split: How predict cuts a sentence into words: at blanks, or also around signs as nobody has cut it.
    """

    scheme: str = "auto"
    mode: Literal["strict", "lenient"] = "strict"
    pieces: Literal["first", "all"] = "first"
    path: Literal["best", "legal"] = "best"
    stride: int | None = None
    split: Literal["blanks", "signs"] = "blanks"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answering:
    """How answers are looked for.

    Args:
        stride: Tokens from one window of a long context to the next.
        longest: Tokens of the longest answer.
        no_answer: An answer in the table that says that there is none; the empty one always does.
    """

    stride: int = 128
    longest: int = 30
    no_answer: str | None = None


TAGGED, ANSWERED = Tagging(), Answering()


def tag(
    data: Data, *, out: Out, model: Start = "nano", words_column: str = "words", tags_column: str = "tags",
    tagging: Tagging = TAGGED, learning: Learning = AS_USUAL, testing: Testing = TESTED,
) -> None:  # fmt: skip
    """Words to tags: names in sentences, parts of speech.

    Args:
        data: Sentences: .conll; or rows whose words stand between blanks or in a JSON list.
        words_column: The column of words; the first of a .conll file.
        tags_column: The column of tags; the last of a .conll file, whose others are named by their number.
    """
    names = {"words": words_column, "tags": tags_column}
    trained("tag", data, out, model, names, learning, testing, dataclasses.asdict(tagging))


def answer(
    data: Data, *, out: Out, model: Start = "nano", question_column: str = "question", context_column: str = "context",
    answer_column: str = "answer", answering: Answering = ANSWERED, learning: Learning = AS_USUAL,
    testing: Testing = TESTED,
) -> None:  # fmt: skip
    """Questions with a context to answers, each a stretch of it, or none.

    Args:
        data: SQuAD's .json; or rows, whose answers are texts or the JSON of SQuAD's text and answer_start.
        question_column: The column of questions.
        context_column: The column of contexts.
        answer_column: The column of answers, empty where there is none.
    """
    names = {"question": question_column, "context": context_column, "answer": answer_column}
    trained("answer", data, out, model, names, learning, testing, dataclasses.asdict(answering))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Writing:
    """How texts are put and written.

    Args:
        prefix: Put before every source, as the checkpoint learned it: "summarize: ".
        source_language: As the tokenizer names it (en_XX), where it knows several.
        target_language: The same of what is written.
        max_target_length: Tokens that are written at most; as the task has it if absent.
        label_smoothing: Share of each target's probability that is spread over the vocabulary in training.
        num_beams: Keep so many texts in sight when writing.
    """

    prefix: str = ""
    source_language: str | None = None
    target_language: str | None = None
    max_target_length: int | None = None
    label_smoothing: float = 0.0
    num_beams: int = 1


AS_IT_IS = Writing()


def seq2seq(
    data: Data, *, out: Out, model: Writer = "nano:t5", source_column: str = "source", target_column: str = "target",
    writing: Writing = AS_IT_IS, learning: Learning = AS_USUAL, testing: Testing = TESTED,
) -> None:  # fmt: skip
    """Texts to texts: translations, summaries, answers.

    Args:
        source_column: The column of texts that are read.
        target_column: The column of texts that are written.
    """
    names = {"source": source_column, "target": target_column}
    trained("seq2seq", data, out, model, names, learning, testing, _said(writing))


def text_to_text(
    data: Data, *, out: Out, model: Writer = "nano:t5",
    kind: Literal["classify", "pairs", "pairs-number", "answer"] = "classify",
    columns: Annotated[tuple[str, ...], Option(many=True)] = (), template: str = "",
    decoding: Literal["labels", "free"] | None = None, writing: Writing = AS_IT_IS, learning: Learning = AS_USUAL,
    testing: Testing = TESTED,
) -> None:  # fmt: skip
    """Labels, numbers and answers written as words by an encoder-decoder.

    Args:
        kind: Labels of texts or of pairs, numbers of pairs, or answers from a context.
        columns: Where the table's columns have other names than the task's, each as role=name: text=body.
        template: T5's name for the task (mnli, stsb), or a sentence with the columns in braces.
        decoding: Take the likeliest label by its tokens, or write freely and count what is none.
    """
    from variorum.cli.predict import roles

    own = _said(writing) | {"template": template} | ({} if decoding is None else {"decoding": decoding})
    trained(f"{kind}-text", data, out, model, roles(columns), learning, testing, own)


def _said(writing: Writing) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(writing).items() if value is not None}


def trained(
    kind: str, data: str, out: Path, model: str, names: dict[str, str], learning: Learning, testing: Testing,
    own: dict[str, Any] | None = None, further: Further = NO_MORE,
) -> None:  # fmt: skip
    """Train a task of this kind, and print its figures; ``own`` are parameters that only its estimator has."""
    from variorum.tasks.job import Asked, train

    said = {name: value for name, value in dataclasses.asdict(learning).items() if value is not None}
    seed, seeds = said.pop("seed"), said.pop("seeds")
    parameters = {"model": model, "random_state": seed, "verbose": 1, **said, **(own or {})}
    asked = Asked(kind=kind, data=data, parameters=parameters, names=names, kept=testing.kept(), add=further.add,
                  weight=further.weight_column, seeds=seeds)  # fmt: skip
    found = train(asked, out, say=say)
    emit(found, human=human(found))
    say(f"written to {out}")


command = Verbs(
    "Fine-tune a model to a task, on a table.",
    {
        "classify": classify,
        "pairs": pairs,
        "number": number,
        "pairs-number": pairs_number,
        "embed": embed,
        "tag": tag,
        "answer": answer,
        "seq2seq": seq2seq,
        "text-to-text": text_to_text,
    },
)
