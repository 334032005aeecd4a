"""A tiny oracle model with one head: how it is built, saved and probed. The table of them is `tiny.py`."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tests.parity.probes import KINDS, PADDED, Material, Probe

VOCAB = 97

CLASSES = {
    None: "Model",
    "masked_lm": "ForMaskedLM",
    "causal_lm": "ForCausalLM",
    "permutation_lm": "LMHeadModel",
    "seq2seq_lm": "ForConditionalGeneration",
    "masked_lm+next_sentence": "ForPreTraining",
    "replaced_token": "ForPreTraining",
    "next_sentence": "ForNextSentencePrediction",
    "sequence_classification": "ForSequenceClassification",
    "multiple_choice": "ForMultipleChoice",
    "token_classification": "ForTokenClassification",
    "question_answering": "ForQuestionAnswering",
    "answer_span": "ForQuestionAnswering",
    "image_classification": "ForImageClassification",
}
LABELS = {"sequence_classification": 3, "token_classification": 5, "image_classification": 3}
TASKS = ("sequence_classification", "token_classification", "question_answering")
SEPARATED = ("question_answering", "multiple_choice")
POOLED = ("sequence_classification", "next_sentence", "multiple_choice", "image_classification", "answer_span")

FIRST_COLUMN = "reads the first column, which holds padding"
PADDED_ANSWERS = "gives padded columns a share of the answer"
LAST_COLUMN = "reads the last column, which holds padding"
COUNTED = "counts columns of padding among positions"
ONE_LENGTH = "takes the longest text's length for every text beside it"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tiny:
    """One tiny model.

    name: what the tables print. system: our name of the family. oracle: the prefix of the published classes.
    heads: our head names (None: no head). config: the published configuration. untied: a module whose weight is
    its own although the published class (T5) ties it whatever its configuration says. classes: published class
    names that break the pattern. segments: segment ids the model reads. pools: what the published sequence head
    reads ("first" and "last" column: wherever the padding is). pixels, mels: the shape of what is read instead of
    ids, vectors: how many positions that makes. everywhere: one of so many tokens is global, under heads that do not
    say themselves which ones are. start: the first id
    of a decoder beside an encoder ("last": the last of what it writes); encodes: the heads that read the encoder alone;
    trail: tokens after the end id. columns: the published code counts padding among positions. one_length: it
    takes the longest text's length for the whole batch. extra: probe kinds of single heads.
    """

    name: str
    system: str
    oracle: str
    heads: tuple[str | None, ...]
    config: Mapping[str, Any]
    untied: str | None = None
    classes: Mapping[str | None, str] = dataclasses.field(default_factory=dict)
    segments: int = 0
    pools: str = "first"
    #: Heads that look for the first real token where the others of the family take the first column.
    finds_first: tuple[str, ...] = ()
    given_positions: bool = True
    #: How the oracle attends; "sdpa" where its eager path is wrong (Falcon's adds its linear biases twice).
    backend: str = "eager"
    pixels: tuple[int, ...] = ()
    mels: tuple[int, ...] = ()
    vectors: int = 0
    everywhere: int = 0
    one_length: bool = False
    start: int | Literal["last"] | None = None
    encodes: tuple[str | None, ...] = ()
    trail: int = 0
    columns: bool = False
    extra: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def cases(self) -> list[Case]:
        """One per head."""
        return [Case(tiny=self, head=head) for head in self.heads]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A tiny model with one head: what is materialised, probed and compared."""

    tiny: Tiny
    head: str | None
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.tiny.name}/{self.head or 'hidden'}"

    @property
    def oracle(self) -> str:
        return self.tiny.classes.get(self.head, self.tiny.oracle + CLASSES[self.head])

    @property
    def config(self) -> dict[str, Any]:
        labels = {"num_labels": LABELS[self.head]} if self.head in LABELS else {}
        return {"vocab_size": VOCAB, **copy.deepcopy(dict(self.tiny.config)), **labels}

    @property
    def material(self) -> Material:
        """What probes are drawn from. Sequence and span heads on a decoder re-read the source, up to its end id."""
        decodes = self.tiny.start is not None and self.head not in self.tiny.encodes
        return Material(
            vocab=self.config["vocab_size"],
            pad=self.config.get("pad_token_id", 0),
            segments=self.tiny.segments,
            eos=self.config["eos_token_id"] if decodes else None,
            trail=self.tiny.trail,
            start=self.tiny.start if decodes else None,
            echo=decodes and self.head in (*POOLED, "question_answering"),
            pooled=self.head in POOLED,
            choices=self.head == "multiple_choice",
            pixels=self.tiny.pixels,
            mels=self.tiny.mels,
            vectors=self.tiny.vectors,
            given_positions=self.tiny.given_positions,
            separator=self.config["sep_token_id"] if self.tiny.everywhere and self.head in SEPARATED else None,
            everywhere=0 if self.head in (*SEPARATED, "sequence_classification") else self.tiny.everywhere,
            seed=self.seed,
        )

    @property
    def kinds(self) -> tuple[str, ...]:
        """Names of the probes."""
        if self.tiny.pixels:
            return ("full", "alone")
        keeps = "memory" if self.config.get("mem_len") else "cached"
        more = {"causal_lm": (keeps, "cached_padded")[: 1 + (keeps == "cached")], "seq2seq_lm": ("cached",)}
        unsegmented = ("unsegmented",) if self.tiny.segments else ()
        return (*PADDED, *unsegmented, *more.get(self.head or "", ()), *self.tiny.extra.get(self.head or "", ()))

    def probes(self) -> list[Probe]:
        return [KINDS[kind](self.material) for kind in self.kinds]

    def misread(self, kind: str) -> str | None:
        """Why the oracle itself is wrong on a probe; then each sequence run alone is what is right."""
        pooled = self.head in (*POOLED, "masked_lm+next_sentence")
        if self.head == "answer_span" and kind in ("left", "right"):
            return PADDED_ANSWERS
        if kind == "left" and self.tiny.columns:
            return COUNTED
        if pooled and kind == "left" and self.tiny.pools == "first" and self.head not in self.tiny.finds_first:
            return FIRST_COLUMN
        if pooled and kind == "right" and self.tiny.pools == "last":
            return LAST_COLUMN
        return ONE_LENGTH if self.tiny.one_length and kind in ("left", "right") else None


def materialise(case: Case, directory: Path) -> Path:
    """Builds the oracle in float32 from its published configuration, every parameter random, and saves it."""
    import torch

    from tests.parity import oracle

    kind = oracle.published(case.oracle)
    torch.manual_seed(case.seed)
    model = kind(kind.config_class(**case.config)).eval()
    if case.tiny.untied is not None and hasattr(model, case.tiny.untied):
        output = model.get_submodule(case.tiny.untied)
        output.weight = torch.nn.Parameter(output.weight.detach().clone())
        model.config.tie_word_embeddings = False
    oracle.randomise(model, case.seed)
    oracle.save(model, directory)
    return directory
