"""What may go with what, and why not: one table of rules with a reason and a remedy each.

``check`` holds a spec against the rules of building it and of the objective it names; ``require`` against those of one
use (a verb, an objective, a head); ``comparable`` says whether two models may be compared by a measure. The tests of
single rules are in :mod:`variorum.spec.checks`; nothing else in the package decides what is legal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Literal

from variorum.errors import UsageError, nearest
from variorum.spec import checks as c
from variorum.spec import checks_heads as of_heads
from variorum.spec import checks_long as long
from variorum.spec import checks_objectives as of_objectives
from variorum.spec import checks_recurrent as halves
from variorum.spec.heads import (
    HEAD_NAMES,
    AdaptiveSoftmax,
    EmbeddingHead,
    SequenceHead,
    SpanHead,
    TokenHead,
    TwoWayHead,
    VocabularyHead,
)
from variorum.spec.model import Model

BUILD = "build"
WORDS = VocabularyHead | AdaptiveSoftmax
PAIRS = ("next_sentence", "sentence_order")
REWRITES = ("span_corruption", "infilling", "gap_sentences", "text_to_text")
OBJECTIVES = (
    "masked_lm", "causal_lm", "prefix_lm", "permutation_lm", "translation_lm", "bidirectional_lm", *REWRITES,
    "replaced_token", "distillation", "contrastive", *PAIRS,
)  # fmt: skip
OF_TEXT = tuple(name for name in OBJECTIVES if name not in ("text_to_text", "distillation"))
USES = tuple(dict.fromkeys((BUILD, "generate", "fill_mask", "embed", *OBJECTIVES, *HEAD_NAMES)))
Measure = Literal["loss", "bits_per_byte", "score"]
FROM_BOTH_SIDES = ("fill_mask", "masked_lm", "translation_lm", "replaced_token")


@dataclasses.dataclass(frozen=True)
class Rule:
    """A rule: the uses that it binds, why, what to do, and the test that finds where a model breaks it.

    ``about_head`` marks what a further head would mend, which is no fault of the spec.
    """

    id: str
    uses: tuple[str, ...]
    reason: str
    remedy: str
    broken: Callable[[Model], Iterator[c.Finding]]
    about_head: bool = False


@dataclasses.dataclass(frozen=True)
class Problem:
    """One place where a model breaks a rule."""

    rule: str
    where: str
    what: str
    reason: str
    remedy: str

    def error(self) -> UsageError:
        """The same as an error."""
        return UsageError(f"{self.what}: {self.reason}", where=self.where, remedy=self.remedy)

    def __str__(self) -> str:
        return str(self.error())


def _build(id: str, reason: str, remedy: str, broken: Callable[[Model], Iterator[c.Finding]]) -> Rule:
    return Rule(id, (BUILD,), reason, remedy, broken)


RULES = (
    _build("positive-sizes", "a size counts something, so it is at least 1", "give a positive number", c.sizes),
    _build("positive-limits", "what is held within a limit, or falls with a slope, needs one above 0",
           "give a positive number, or None", c.limits),
    _build("shared-norm", "only sublayers that run side by side read the same, and the first has none before it",
           "use parallel(norm, shared=True), or a norm before each", c.shared_norms),
    _build("parallel-join", "in parallel the outputs are added together, and their sum belongs to no one sublayer",
           "use parallel(norm), or the serial order", c.parallel_joins),
    _build("normed-residual", "the norm before a sublayer makes what the stream carries on, so each has its own",
           "use pre(norm) with this residual, or the residual 'input'", c.normed_residuals),
    _build("kv-heads", "each key head serves the same number of query heads",
           "choose kv_heads among the divisors of heads", c.kv_heads),
    _build("window", "a token always sees itself, so a window shows at least one", "None is no window", c.windows),
    _build("rotary-even", "rotation turns pairs of channels", "choose head_dim and fraction with an even product",
           c.rotary),
    _build("rope-scaling", "a scaling stretches positions by a factor, and NTK's keeps the first pair while it slows"
           " the last", "choose a factor above 0, and at least four rotated channels", c.rope_scaling),
    _build("even-buckets", "half of them are for keys to the left, half for keys to the right",
           "choose an even number of buckets", c.buckets),
    _build("own-key-heads", "its position scores are made for each query head and its own key head",
           "set kv_heads to heads and use plain attention", c.position_scores),
    _build("latent-positions", "latent attention keeps one key apart for rotation, and no other scheme reads it",
           "use Rotary, or plain attention", c.latent_positions),
    _build("causal-convolution", "a convolution over the input shows each token its right neighbours",
           "leave it out, or use a bidirectional stack", c.convolutions),
    _build("convolution-shape", "groups split the width, and the input keeps its length only under an odd kernel",
           "choose a divisor of the width, an odd kernel and an existing layer", c.convolution_shapes),
    _build("expert-counts", "a router can choose only among the experts that it may reach",
           "choose active <= count, groups that divide count, and enough active groups", c.experts),
    _build("tie-shape", "tied matrices are one tensor, so vocabulary and width agree",
           "tie to a table of the same vocabulary and rank, or give the head a transform of that rank", c.ties),
    _build("pooler", "the head reads the pooler's output", "add architecture.pooler, or take the first token",
           of_heads.poolers),
    _build("late-positions", "it runs the last layer once more, with queries that are told where they stand for the"
           " first time, over keys that are not", "set encoder.input.positions to None, or take a VocabularyHead",
           of_heads.enhanced),
    _build("one-state", "two stacks give a text two states, and only the encoder's is about all of it",
           "embed without this head, which reads the encoder, or take an encoder alone", of_heads.one_state),
    _build("one-question", "one of a pair's labels, and one of the choices, is right",
           "set problem to single_label, and the labels of multiple_choice to 1", of_heads.one_question),
    _build("sharing-shape", "layers that share parameters hold tensors of the same shapes",
           "make the layers of a group alike, or share less", c.sharing),
    _build("memory", "a state remembered from the last segment has no absolute position in this one",
           "use RecurrentRelative positions, or no memory", c.memories),
    _build("global-attention", "a global token sees all of one text and is seen by all of it, so nothing may be hidden",
           "use it in a bidirectional stack without memory", long.global_attention),
    _build("global-tokens", "only layers of global and local attention tell tokens apart",
           "set block.attention to GlobalLocalAttention, or the head's global_tokens to None", long.global_tokens),
    _build("memory-alone", "a memory is room for what earlier segments left, and only one stack reads such",
           "give it room, and leave it out beside an encoder", long.memory_alone),
    _build("clusters", "a cluster is a run of ids, and each is narrower than the one before",
           "give rising cutoffs below the vocabulary, and a rank that divide goes into as often", long.clusters),
    _build("adaptive-softmax", "it chooses a cluster of the input's words, then a word of it",
           "give the input clusters and tie to them, or take a VocabularyHead", long.adaptive),
    _build("decoder-mask", "a decoder that saw the next token would only copy it", "set its mask to causal",
           c.decoders),
    _build("cross-attention", "cross-attention reads an encoder, and nothing else joins the two stacks",
           "give encoder and cross-attention together, or neither", c.crossing),
    _build("position-rows", "the rows before position 0 are part of the table", "give more rows than the offset",
           c.rows),
    _build("input-shape", "a decoder writes tokens; patches cut an image without rest, and each has its position",
           "read images in an encoder, with (image / patch)² + 1 rows", c.inputs),
    _build("word-scores", "a head over the vocabulary scores the tokens that its stack reads",
           "take a SequenceHead or TokenHead", of_heads.words),
    _build("text-choices", "each choice is a text, so that B questions are [B, C, T] ids",
           "leave the head out, or read token ids", of_heads.choices),
    _build("special-ids", "a special token is a row of the table", "choose an id below the vocabulary", c.ids),
    _build("recurrent-alone", "it reads the text itself, each half of a state from its own end",
           "leave encoder and decoder out, and choose an even width", halves.recurrent),
    _build("two-halves", "one half of each state predicts the next word, the other the one before",
           "give architecture.recurrent, or take a VocabularyHead", halves.two_ways),
    _build("end-id", "it reads the state at a token that marks the end of the text",
           "set the head's end_id to a row of the table", of_heads.ends),
    _build("start-id", "a decoder beside an encoder reads the labels one step late: it begins with one token, and"
           " reads another where a label is left out", "set decoder.input.start_id and pad_id", c.starts),
    _build("layer-numbers", "a rule for layers that do not exist changes nothing", "choose numbers below the depth",
           c.patterns),
    _build("probabilities", "it is the share of values that are dropped", "choose at least 0 and less than 1",
           c.dropouts),
    _build("shares", "a share lies between nothing and all", "give one above 0, up to 1", of_objectives.shares),
    _build("temperatures", "scores are divided by it", "give a number above 0", of_objectives.temperatures),
    Rule("reads-text", OF_TEXT, "what it hides, moves or compares are tokens of the text that is read",
         "take a model of text; one of sounds learns from pairs, with text_to_text", of_objectives.texts),
    Rule("prefix", ("prefix_lm",), "a prefix is read from both sides, and what follows is written left to right",
         "take a decoder without memory and windows, or an encoder-decoder", of_objectives.prefixes),
    Rule("left-to-right", ("generate",),
         "an encoder with bidirectional attention cannot generate left to right: every state has seen the tokens after"
         " it, so each new token would change all before it",
         "take a decoder such as gpt2 or llama, or an encoder-decoder such as t5; fill-mask predicts hidden words",
         c.writes),
    Rule("both-sides", FROM_BOTH_SIDES, "it has to see the tokens on both sides of the one in question",
         "take an encoder such as bert", c.bidirectional),
    Rule("no-copying", ("causal_lm",),
         "each position is to predict a token that only a causal mask alone in its stack hides",
         "take a decoder such as gpt2; for an encoder masked_lm, for an encoder-decoder span_corruption",
         c.causal_alone),
    Rule("two-directions", ("bidirectional_lm",), "a word is predicted from each side without having been seen",
         "take bilm; for an encoder masked_lm, for a decoder causal_lm", halves.two_directions),
    Rule("two-stacks", (*REWRITES, "seq2seq_lm"), "one stack reads the corrupted text, another answers",
         "take an encoder-decoder such as t5", c.encoder_decoder),
    Rule("two-streams", ("permutation_lm",),
         "the query stream must know where it is without seeing what is there: it starts from a learned vector, and"
         " positions act inside attention",
         "take xlnet, or set positions to RecurrentRelative and input.query_vector", c.two_streams),
    Rule("word-head", ("generate", "prefix_lm"), "words are chosen by a head over the vocabulary",
         "add causal_lm or seq2seq_lm", of_heads.heads(WORDS, "causal_lm", "seq2seq_lm"), about_head=True),
    Rule("soft-targets", ("distillation",), "the student imitates the teacher's distribution over the vocabulary",
         "add masked_lm or causal_lm", of_heads.heads(WORDS, "masked_lm", "causal_lm", "seq2seq_lm"),
         about_head=True),
    Rule("one-label", ("replaced_token",), "every token is judged original or replaced by one number",
         "add a TokenHead with labels=1 as heads.replaced_token", of_heads.one_label, about_head=True),
    Rule("pair-head", PAIRS, "the pair is judged by a head with two labels",
         "add a SequenceHead as heads.next_sentence", of_heads.heads(SequenceHead, "next_sentence"), about_head=True),
    *(
        Rule(f"head-{name.replace('_', '-')}", uses, "the model has no such head",
             f"choose another, or add heads.{name}", of_heads.heads(kinds, name), about_head=True)
        for name, uses, kinds in (
            ("masked_lm", ("fill_mask", "masked_lm", "translation_lm"), WORDS),
            ("causal_lm", ("causal_lm",), WORDS),
            ("permutation_lm", ("permutation_lm",), WORDS),
            ("seq2seq_lm", (*REWRITES, "seq2seq_lm"), WORDS),
            ("bidirectional_lm", ("bidirectional_lm",), TwoWayHead),
            ("sequence_classification", ("sequence_classification",), SequenceHead),
            ("multiple_choice", ("multiple_choice",), SequenceHead),
            ("image_classification", ("image_classification",), SequenceHead),
            ("token_classification", ("token_classification",), TokenHead),
            ("answer_span", ("answer_span",), SpanHead),
            ("embedding", ("embedding",), EmbeddingHead),
            ("question_answering", ("question_answering",), TokenHead),
        )
    ),
)  # fmt: skip


def check(model: Model) -> list[Problem]:
    """Every place where the spec breaks a rule of building it, or of the objective that it names."""
    uses = {BUILD, model.objective.kind, *([model.objective.pair] if model.objective.pair else [])}
    return [problem for rule in RULES if uses & set(rule.uses) and not rule.about_head for problem in _of(rule, model)]


def problems(model: Model, for_: str) -> list[Problem]:
    """Why ``model`` may not be used so; nothing if it may.

    Args:
        model: the spec.
        for_: one of :data:`USES`: ``build``, a verb (``generate``, ``fill_mask``, ``embed``), an objective, a head.

    Raises:
        UsageError: no such use.
    """
    if for_ not in USES:
        raise UsageError(f"unknown use {for_!r}", remedy=nearest(for_, USES) or f"one of {', '.join(USES)}")
    return [problem for rule in RULES if for_ in rule.uses for problem in _of(rule, model)]


def require(model: Model, for_: str) -> None:
    """Refuse a use that the rules exclude, with the reason.

    Raises:
        UsageError: the first rule that is broken, or no such use.
    """
    for problem in problems(model, for_):
        raise problem.error()


def comparable(a: Model, b: Model, measure: Measure) -> None:
    """Refuse to compare two models by a measure that does not mean the same for both.

    Raises:
        UsageError: a loss across objectives or tokenizers, or bits per byte where a model gives no probability of text.
    """
    both = f"{a.name} and {b.name}"
    if measure != "score" and _questions(a, measure) != _questions(b, measure):
        raise UsageError(
            f"{both} cannot be compared by {measure}: {_asked(a)} and {_asked(b)} ask"
            " different questions, and a loss tells how hard its own questions are",
            remedy="compare scores on a task",
        )
    if measure == "loss" and (a.tokenizer, *_vocab(a)) != (b.tokenizer, *_vocab(b)):
        raise UsageError(
            f"{both} cannot be compared by loss: their tokens differ, and a loss is per token",
            remedy="compare bits per byte of the same text" if a.objective.kind == "causal_lm" else "compare scores",
        )
    if measure == "bits_per_byte" and a.objective.kind != "causal_lm":
        raise UsageError(
            f"{both} give no bits per byte: {a.objective.kind} does not assign a text a probability",
            remedy="compare scores on a task",
        )


def head_dim(width: int, heads: int, *, where: str = "") -> int:
    """Channels of a head in the models whose heads split the width.

    Raises:
        UsageError: the heads do not divide the width.
    """
    if heads < 1 or width % heads:
        raise UsageError(
            f"{heads} heads do not divide the width {width}", where=where, remedy="choose a divisor of the width"
        )
    return width // heads


def _vocab(model: Model) -> list[int]:
    arch = model.architecture
    return [getattr(stack.input, "vocab", 0) for stack in arch.stacks.values()] or [arch.vocab]


def _questions(model: Model, measure: Measure) -> tuple[object, ...]:
    """What a model is asked: for a loss also how much is hidden, and how. When a mask is drawn changes no question."""
    objective = model.objective
    if measure != "loss":
        return (objective.kind,)
    masking = objective.masking
    hidden = masking and (masking.rate, masking.mask, masking.random, masking.span, masking.unit)
    others = objective.generator, objective.teacher, objective.contrast
    return objective.kind, objective.pair, objective.label_smoothing, objective.permuted, hidden, others


def _asked(model: Model) -> str:
    """The objective in words."""
    masking, pair = model.objective.masking, model.objective.pair
    split = f" of {masking.rate:.0%} ({masking.mask:.0%} masked, {masking.random:.0%} random)" if masking else ""
    return f"{model.objective.kind}{split}{f' with {pair}' if pair else ''}"


def _of(rule: Rule, model: Model) -> Iterator[Problem]:
    for where, what in rule.broken(model):
        yield Problem(rule.id, where, what, rule.reason, rule.remedy)
