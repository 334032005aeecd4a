"""The command line: one thin file per verb, imported only when its verb runs.

It parses, calls one function of the package, and hands the result to :mod:`variorum.cli.output`; nothing is computed
here. It sits on the top floor and must start without torch, numpy or pydantic, and nearly always without its own full
parser: :mod:`variorum.cli.reading` reads a command line from the signature of its verb.

To add a verb, add one line to the table and one file beside this one, named after the verb (``fill-mask`` is
``fill_mask.py``), which holds a function, or :class:`~variorum.cli.reading.Verbs` of several, called ``command``::

    def command(model: str, *, text: str) -> None:
        \"\"\"The summary.

        Args:
            model: a model reference.
            text: what to read.
        \"\"\"
        from variorum.inference import something   # heavy imports stay inside: `VERB --help` must be quick

        emit(something(model, text), columns=("token", "probability"))

A parameter before the star is an argument, one after it an option; ``Annotated[..., Option(...)]`` says what its type
does not, and the fields of a dataclass (``loading: Loading``) are options that several verbs share.

Results go to stdout through ``emit``; ``say`` writes notes to stderr. A verb raises a kind of
:class:`variorum.errors.VariorumError` for what the user can mend, and may return an exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cyclopts import App


class Verb(NamedTuple):
    """A command: its name, the line that the help page gives it, and the panel where it stands."""

    name: str
    summary: str
    group: str

    @property
    def module(self) -> str:
        """The name of its file, without the ending."""
        return self.name.replace("-", "_")


SPECS, MODELS, STUDIES, SYSTEM = "Specs (no weights needed)", "Models", "Studies", "This installation"
TASKS = "Tasks (rows of your own)"

_TABLE = (
    Verb("tree", "The family tree: who descends from whom, and by which change.", SPECS),
    Verb("show", "Everything a model is: its choices, trained tensors, run-time state.", SPECS),
    Verb("diff", "Two models side by side: what differs, why, and what it costs.", SPECS),
    Verb("choose", "Which model for which need, why, and at what price.", SPECS),
    Verb("size", "Parameters, FLOPs, cache and activations, term by term.", SPECS),
    Verb("shapes", "Every named tensor of a forward pass with its axes.", SPECS),
    Verb("tokenize", "A text as a model gets it: pieces, ids, segments, mask, offsets.", MODELS),
    Verb("tokenizer", "Learn a vocabulary, or say what a tokenizer is made of.", MODELS),
    Verb("fill-mask", "The likeliest words for each [MASK] in a text.", MODELS),
    Verb("embed", "A vector for each text.", MODELS),
    Verb("search", "The texts of a file that are nearest in meaning to a query.", MODELS),
    Verb("score", "How likely texts are to a model: perplexity, bits per byte.", MODELS),
    Verb("generate", "Continue a text.", MODELS),
    Verb("translate", "Texts in another language.", MODELS),
    Verb("summarize", "Texts in short.", MODELS),
    Verb("transcribe", "What is said in a recording.", MODELS),
    Verb("attention", "Who attends to whom: maps of a text in a model.", MODELS),
    Verb("experts", "Which experts a router chooses for your texts, layer by layer.", MODELS),
    Verb("bench", "How fast a model is here, on your texts, and what memory it takes.", MODELS),
    Verb("trace", "The first module that differs from recorded activations.", MODELS),
    Verb("pretrain", "Train a model from nothing, by its recipe, on your texts.", MODELS),
    Verb("resume", "Go on with a run that was stopped, to the same bits.", MODELS),
    Verb("convert", "Write a model as a published directory.", MODELS),
    Verb("audit", "What is wrong with labelled rows, before a model learns it.", TASKS),
    Verb("train", "Fine-tune a model to a task, on a table.", TASKS),
    Verb("predict", "The answers of a trained task, a row for every row of a table.", TASKS),
    Verb("answer", "What a text says to a question.", TASKS),
    Verb("evaluate", "How well a trained task does on labelled rows.", TASKS),
    Verb("label", "Label rows with a model that was never trained on the labels.", TASKS),
    Verb("augment", "More rows of rare classes to learn from.", TASKS),
    Verb("learning-curve", "Whether more labels would pay, class by class.", TASKS),
    Verb("report", "Where a trained task is right and wrong, as a page.", TASKS),
    Verb("distil", "A smaller model that does a trained one's task, and what it keeps of it.", TASKS),
    Verb("monitor", "Whether what a trained model meets has changed.", TASKS),
    Verb("study", "Compare variants fairly, and report what each change buys.", STUDIES),
    Verb("check", "Try what is said of mechanisms: the figure found, and the one expected.", STUDIES),
    Verb("download", "Fetch a published model into the cache.", SYSTEM),
    Verb("doctor", "Versions, threads, back ends, cache folder and free space.", SYSTEM),
    Verb("completion", "The completion script for a shell.", SYSTEM),
)

VERBS = tuple(verb for verb in _TABLE if os.path.exists(f"{os.path.dirname(__file__)}/{verb.module}.py"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: the words after the program's name; those of the process if absent.
    """
    from variorum.cli.app import run

    return run(list(sys.argv[1:] if argv is None else argv))


def build() -> App:
    """The application with every verb registered and none imported."""
    from variorum.cli.full import build as build_app

    return build_app()
