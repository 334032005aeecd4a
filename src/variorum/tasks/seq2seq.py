"""A text written for a text: translation, summaries, questions answered in words, by an encoder-decoder.

What stands before a source ("summarize: ") and the languages that a tokenizer knows by code are parameters, so the same
estimator fits T5, BART and mBART. The model learns each token after the right ones before it; it writes as its
checkpoint and the parameters say, by beams if asked.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from variorum.tasks.estimator import Columns, Estimator, held_out, texts_of
from variorum.tasks.examples import Example, Padded, inputs_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from variorum.face import Model
    from variorum.model import Model as Core
    from variorum.tasks.examined import Examined, Read
    from variorum.tasks.metrics.intervals import Figure
    from variorum.text import Tokenizer

HEAD = "seq2seq_lm"
#: Texts that are written together, and tokens that are scored together.
TOGETHER, TOKENS = 32, 4096


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class Seq2Seq(Estimator):
    """Texts to texts.

    Args:
        model: an encoder-decoder; a small T5 made from nothing by default.
        prefix: what is put before every source, as the checkpoint learned it: "translate English to German: ".
        source_language, target_language: as the tokenizer names them (de_DE), where it knows several.
        max_target_length: tokens that are written at most; what is learned from is cut there.
        label_smoothing: share of each target's probability that is spread over the vocabulary in training.
        num_beams, length_penalty: how it is searched for the likeliest text; one beam takes the likeliest token.
    """

    kind: ClassVar[str] = "seq2seq"
    columns: ClassVar[Columns] = Columns(("source",), "target")

    model: str = dataclasses.field(default="nano:t5", kw_only=False)
    prefix: str = ""
    source_language: str | None = None
    target_language: str | None = None
    max_target_length: int = 128
    label_smoothing: float = 0.0
    num_beams: int = 1
    length_penalty: float = 1.0

    def fit(self, X: Any, y: Any) -> Self:
        """Learn to write ``y`` for ``X``, texts both.

        Raises:
            NotFound: the model is no encoder-decoder. UsageError: the tokenizer does not know a language.
        """
        self.begun(y)
        sources, targets = self.asked(X), self.told(y)
        check_consistent_length(sources, targets)
        learned, held = held_out(len(sources), self.validation, self.seed)
        model = self.ready([*sources, *targets])
        examples = self.examples(model, sources, targets)
        kept = [examples[i] for i in held]
        self.learn(model, [examples[i] for i in learned], kept)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """What the model writes for each source, [N]."""
        return np.array(self.write(self.asked(X)), dtype=object)

    def answers(self, X: Any) -> list[dict[str, Any]]:
        """The text written for each source."""
        return [{"target": text} for text in self.predict(X)]

    def evaluate(self, X: Any, y: Any) -> dict[str, Any]:
        """chrF, BLEU and ROUGE-L of what is written, and the share that is right to the letter."""
        from variorum.tasks.metrics.text import bleu, chrf, rouge_l

        written, right = list(self.predict(X)), self.told(y)
        exact = sum(a == b for a, b in zip(written, right, strict=True)) / len(right)
        return {
            "chrf": chrf(written, right), "bleu": bleu(written, right), "rouge_l": rouge_l(written, right),
            "exact": exact, "rows": len(right),
        }  # fmt: skip

    def figures(self, predicted: Any, y: Any) -> dict[str, Figure]:
        """chrF, the share that is right to the letter, and words written for each right one."""
        from variorum.tasks.metrics.intervals import mean_of, ratio_of
        from variorum.tasks.metrics.text import chrf_of

        written, right = list(map(str, predicted)), self.told(y)
        lengths = ([len(text.split()) for text in rows] for rows in (written, right))
        exact = [a == b for a, b in zip(written, right, strict=True)]
        return {"chrf": chrf_of(written, right), "exact": mean_of(exact), "length": ratio_of(*lengths)}

    def examined(self, X: Any, y: Any) -> Examined:
        """Its texts beside the right ones, and those that only repeat their source."""
        from variorum.tasks.examined import Examined, Mistake
        from variorum.tasks.metrics.intervals import mean_of
        from variorum.tasks.metrics.text import chrf_each

        sources, right = texts_of(X), self.told(y)
        written = self.predict(sources).tolist()
        copied = [a.strip() == b.strip() for a, b in zip(written, sources, strict=True)]
        each = chrf_each(written, right)
        read = self.read(sources)
        mistakes = [
            Mistake(row=row, text=sources[row], truth=right[row], answer=written[row], by=100 - each[row],
                    note=f"chrF {each[row]:.1f}{', a copy of the source' if copied[row] else ''}")
            for row in range(len(right)) if written[row] != right[row]
        ]  # fmt: skip
        empty = [not text for text in written]
        figures = {**self.figures(written, y), "copies": mean_of(copied), "empty": mean_of(empty)}
        return Examined(read=read, figures=figures, each=np.array(each), measure="chrF", mistakes=mistakes)

    def recall(self, learned: Mapping[str, Any]) -> None:
        """Read the source's language again."""
        self.model_.tokenizer = self._speaking(self.model_.tokenizer, self.source_language)

    def beside(self) -> dict[str, bytes]:
        """How it writes, for other readers too."""
        from variorum.checkpoint.source import GENERATION
        from variorum.inference.habits import said

        settings = {**said(self.model_), "max_new_tokens": self.max_target_length, "num_beams": self.num_beams,
                    "length_penalty": self.length_penalty, **_ends(self.model_)}  # fmt: skip
        return {GENERATION: json.dumps(settings, indent=2, sort_keys=True).encode() + b"\n"}

    # What tasks said as text share.

    def asked(self, X: Any) -> list[str]:
        """The sources as the encoder reads them."""
        return [self.prefix + text for text in texts_of(X)]

    def read(self, X: Any) -> Read:
        """The sources as the encoder reads them, with their lengths."""
        from variorum.tasks.examined import Read

        return Read.by(self.model_, self.asked(X), self.limit(self.model_))

    def told(self, y: Any) -> list[str]:
        """The targets as they are written."""
        return texts_of(y)

    def ready(self, texts: Sequence[str]) -> Model:
        """The model to train, which reads the source's language.

        Raises:
            NotFound: it is no encoder-decoder. UsageError: its tokenizer does not know the language.
        """
        model = self.started(HEAD, texts)
        model.tokenizer = self._speaking(model.tokenizer, self.source_language)
        return model

    def examples(self, model: Model, sources: Sequence[str], targets: Sequence[str]) -> list[Example]:
        """What the model learns from, sources and targets cut to what is read and written of them."""
        rows = zip(self.encode(model, sources), self.ended(model, targets), strict=True)
        return [Example(inputs=inputs_of(model, source), target=target) for source, target in rows]

    def ended(self, model: Model, targets: Sequence[str]) -> list[list[int]]:
        """Targets as ids with what ends them, cut to what is written at most."""
        writing, most = self._speaking(model.tokenizer, self.target_language), self.max_target_length
        rows, end = [one.ids for one in writing.encode_batch(targets, max_length=most)], writing.eos_id
        return [ids if end is None or end in ids[-1:] else [*ids[: most - 1], end] for ids in rows]

    def learn(self, model: Model, examples: Sequence[Example], held: Sequence[Example]) -> None:
        """Train ``model``; the epoch is kept in which what is ``held`` out was likeliest."""
        from variorum.objectives.rewriting import Rewriting

        plain, collate = model.spec, Padded(model.tokenizer.pad_id or 0)
        model.spec = plain.set({"objective.label_smoothing": self.label_smoothing})
        try:
            judge = functools.partial(likelihood, examples=held) if held else None
            self.tune(model, Rewriting(), examples, collate, judge)
        finally:
            model.spec = plain

    def write(self, asked: Sequence[str]) -> list[str]:
        """What the model writes for what it is asked, in order."""
        from variorum.inference.habits import asked as wanted
        from variorum.inference.packing import groups
        from variorum.inference.texts import Request, fulfil

        check_is_fitted(self)
        encodings = self.encode(self.model_, asked)
        choice = {"max_new_tokens": self.max_target_length, "do_sample": False, "num_beams": self.num_beams,
                  "length_penalty": self.length_penalty}  # fmt: skip
        found = [""] * len(asked)
        for rows in groups([len(one.ids) for one in encodings], TOKENS, TOGETHER):
            ids = [encodings[row].ids for row in rows]
            strategy = wanted(self.model_, ids, choice, language=self.target_language)
            requests = [Request(asked[row], one, []) for row, one in zip(rows, ids, strict=True)]
            for row, written in zip(rows, fulfil(self.model_, requests, strategy), strict=True):
                found[row] = written.text
        return found

    def _speaking(self, tokenizer: Tokenizer, language: str | None) -> Tokenizer:
        return tokenizer if language is None else tokenizer.choose(language=language)


def likelihood(model: Core, examples: Sequence[Example]) -> float:
    """The mean log-probability of a target's token, each after the right ones before it."""
    import torch

    from variorum.objectives.rewriting import Rewriting
    from variorum.tasks.examples import by_tokens
    from variorum.training.evaluate import scoring
    from variorum.training.loop import on_device

    objective, collate, unused = Rewriting(), Padded(model.tokenizer.pad_id or 0), torch.Generator()
    total, count = 0.0, 0
    with scoring(model):
        for piece in by_tokens(examples, TOKENS):
            example = on_device(objective.corrupt(collate(piece), unused), str(next(model.parameters()).device))
            part = objective.loss(model, example)
            total, count = total - float(part.total), count + part.count
    return total / max(1, count)


def _ends(model: Model) -> dict[str, Any]:
    """The ids that begin, end and fill up a text, as generation_config.json names them."""
    from variorum.inference.habits import end_ids

    start, pad = model.spec.architecture.main.tokens.start_id, model.tokenizer.pad_id
    found = {"decoder_start_token_id": start, "pad_token_id": pad, "eos_token_id": next(iter(end_ids(model)), None)}
    return {name: value for name, value in found.items() if isinstance(value, int)}
