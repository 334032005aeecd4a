"""Which model for which need: the decision map of the field as rules, each with its price and where it stops holding.

A rule names models of the family. It is asked for by a need (what has to be done) and constraints (what is scarce, or
what is wrong with the usual answer). Rules say where to begin; a bake-off on one's own data says what is true there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from variorum.errors import UsageError

Need = Literal["generation", "understanding", "embedding", "transduction", "classification"]
Constraint = Literal[
    "size", "latency", "compute", "long-context", "training-signal", "mask-artefact", "position-content", "recipe",
    "few-labels", "many-labels", "indian-languages", "many-languages", "noisy-text", "kv-memory",
]  # fmt: skip
ENCODES: tuple[Need, ...] = ("understanding", "embedding", "classification")
EVERY: tuple[Need, ...] = ("generation", "transduction", *ENCODES)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """For these ``needs`` under this ``constraint`` (``None``: under none): take ``model``.

    Attributes:
        instead: the runner-up. price: what is given up. until: where the rule stops holding.
    """

    id: str
    needs: tuple[Need, ...]
    constraint: Constraint | None
    model: str
    instead: str
    because: str
    price: str
    until: str


RULES = (
    Rule(
        id="generation", needs=("generation",), constraint=None, model="llama-3", instead="qwen3",
        because="one causal stack reads the prompt and writes the answer, and a key cache makes each token cheap",
        price="a token sees only what stands before it, so its vectors are worse than an encoder's of the same size",
        until="the answer is a label or a span of the text: an encoder does that smaller and sooner",
    ),
    Rule(
        id="understanding", needs=("understanding", "classification"), constraint=None, model="modernbert",
        instead="deberta-v3", because="every token sees both sides, and one pass reads the whole text",
        price="it writes nothing, and every task has to be learned from labels",
        until="there are hardly any labels: a decoder that is asked needs none",
    ),
    Rule(
        id="embedding", needs=("embedding",), constraint=None, model="all-minilm", instead="bge",
        because="an encoder trained by contrast puts texts of one meaning side by side, at a few milliseconds each",
        price="one vector for a text forgets its details; it was trained on some 256 tokens",
        until="texts are long or of another language: bge and e5 read more, xlm-roberta more languages",
    ),
    Rule(
        id="transduction", needs=("transduction",), constraint=None, model="flan-t5", instead="bart",
        because="an encoder reads the source from both sides once, a decoder writes what it becomes",
        price="two stacks, and a source that is read before the first word can be written",
        until="instructions in words matter more than the source: a large decoder follows them better",
    ),
    Rule(
        id="compute", needs=("generation",), constraint="compute", model="mixtral", instead="qwen3-moe",
        because="a router sends each token through two of eight experts: the quality of many weights, the work of few",
        price="all experts have to be in memory, and routing has to be kept in balance while it learns",
        until="memory is what is scarce, or batches are too small to fill the experts",
    ),
    Rule(
        id="size", needs=ENCODES, constraint="size", model="albert", instead="distilbert",
        because="one set of layer weights is used twelve times, and a narrow table spells the words",
        price="as much work as BERT, and some quality below the xxlarge size",
        until="it is time rather than bytes that is scarce: sharing saves none",
    ),
    Rule(
        id="latency", needs=ENCODES, constraint="latency", model="distilbert", instead="minilm",
        because="half of BERT's layers, begun from its own and taught by its outputs, take about half the time",
        price="some 3 % of the score",
        until="texts are so short that tokenising and starting up take longer than the layers",
    ),
    Rule(
        id="long-context", needs=ENCODES, constraint="long-context", model="modernbert", instead="longformer",
        because="windows in most layers make time and memory grow with the length, rotations carry to 8,192 tokens",
        price="what is further apart than a window meets in the few layers that see all",
        until="the text is longer still, or English and code are not its languages",
    ),
    Rule(
        id="training-signal", needs=ENCODES, constraint="training-signal", model="electra", instead="deberta-v3",
        because="every token asks whether it was replaced, where masks ask about one in seven",
        price="a generator has to be trained beside it, and it fills in no masks itself",
        until="what is pretrained is already at hand: fine-tuning alone feels no difference in signal",
    ),
    Rule(
        id="mask-artefact", needs=ENCODES, constraint="mask-artefact", model="xlnet", instead="electra",
        because="it learns in permuted order, so no [MASK] is seen in training that is never seen in use",
        price="two streams make pretraining about twice as costly, and decoding is slow",
        until="there is enough fine-tuning to make up for the mask, as there mostly is",
    ),
    Rule(
        id="position-content", needs=ENCODES, constraint="position-content", model="deberta-v3", instead="xlnet",
        because="scores are made of content and of relative position apart, in every layer",
        price="three products for a score make it about half as fast as BERT",
        until="order matters little to the task, as in topics",
    ),
    Rule(
        id="recipe", needs=ENCODES, constraint="recipe", model="roberta", instead="modernbert",
        because="BERT's very architecture, trained on ten times the text without the next-sentence task",
        price="none but the training, which others have paid",
        until="length, speed or size is what is wrong with BERT: nothing of these changed",
    ),
    Rule(
        id="many-labels", needs=("classification",), constraint="many-labels", model="modernbert", instead="bert",
        because="with labels of one's own domain an encoder of a hundred million parameters does as well as far larger "
        "models, at a hundredth of their price",
        price="labels, and training again when they change",
        until="TF-IDF with a linear model is as good: always compare it first",
    ),
    Rule(
        id="few-labels", needs=("classification",), constraint="few-labels", model="llama-3", instead="flan-t5",
        because="a large decoder knows the labels' words and needs no examples, or a few in its prompt",
        price="slow and dear for each text, and its certainty is not to be trusted before it is corrected",
        until="some hundred labels are there: label them with it, then train an encoder",
    ),
    Rule(
        id="indian-languages", needs=ENCODES, constraint="indian-languages", model="muril", instead="xlm-roberta",
        because="seventeen Indian languages, each also in Latin letters, which mixed texts are written in",
        price="a table of 197,000 pieces is most of the model",
        until="another language is mixed in: xlm-roberta knows a hundred, none of them romanised",
    ),
    Rule(
        id="many-languages", needs=ENCODES, constraint="many-languages", model="xlm-roberta", instead="muril",
        because="one model of a hundred languages, so that labels in one help in the others",
        price="each language has less of the model than one made for it",
        until="one language is all that is needed",
    ),
    Rule(
        id="noisy-text", needs=("transduction", *ENCODES), constraint="noisy-text", model="byt5", instead="mt5",
        because="bytes have no unknown words: misspelt, mixed and rare texts are read as they stand",
        price="texts are four times as many tokens long, and as much slower",
        until="texts are clean, or so long that bytes do not fit",
    ),
    Rule(
        id="kv-memory", needs=("generation",), constraint="kv-memory", model="deepseek-v3", instead="gemma-3",
        because="one small common vector is kept of each token instead of keys and values of every head",
        price="it has to be spread out again at each step, and no small size is published",
        until="contexts are short: then the weights are what fills the memory",
    ),
    Rule(
        id="long-prompts", needs=("generation",), constraint="long-context", model="gemma-3", instead="mistral",
        because="five of six layers see a window alone, so that the cache hardly grows",
        price="what is far apart meets in one layer of six",
        until="the answer hangs on a detail far back: layers that see all find it more surely",
    ),
    Rule(
        id="small-writer", needs=("generation",), constraint="size", model="smollm2", instead="gemma-3",
        because="135 million parameters, trained on two trillion tokens, are the fewest that write sentences",
        price="facts and arithmetic",
        until="it has to know things: quantise a larger one instead",
    ),
)  # fmt: skip


def choose(need: Need, constraints: Sequence[Constraint] = ()) -> list[Rule]:
    """The rules that speak to a need under constraints, in the order of the constraints; that of the need alone last.

    Raises:
        UsageError: no rule knows this need under one of the constraints.
    """
    found: list[Rule] = []
    for constraint in (*constraints, None):
        speaking = [rule for rule in RULES if need in rule.needs and rule.constraint == constraint]
        if not speaking:
            known = sorted({rule.constraint for rule in RULES if need in rule.needs and rule.constraint})
            raise UsageError(
                f"no rule knows {need} under {constraint}", where="--constraint", remedy=f"one of {', '.join(known)}"
            )
        found += speaking
    return found
