"""Every rule catches what it is for, and says why; no published model breaks one."""

from __future__ import annotations

import pytest

from tests.spec.shrunk import ALL
from variorum.builder import build
from variorum.errors import UsageError
from variorum.family import find, models
from variorum.spec.architecture import At, Convolution, Pooler, Sharing
from variorum.spec.attention import GlobalLocalAttention
from variorum.spec.heads import (
    AdaptiveSoftmax,
    EmbeddingHead,
    EnhancedMaskDecoder,
    FirstToken,
    SequenceHead,
    TokenHead,
    TwoWayHead,
    VocabularyHead,
)
from variorum.spec.inputs import Clusters, PatchInput
from variorum.spec.inventory import tensors
from variorum.spec.model import Model
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import (
    Alibi,
    Disentangled,
    LinearScaling,
    NtkScaling,
    RecurrentRelative,
    RelativeBuckets,
    Rotary,
)
from variorum.spec.rules import RULES, USES, check, comparable, head_dim, problems, require

ENCODER, DECODER = "architecture.encoder", "architecture.decoder"
CONV = Convolution(kernel=3, activation="tanh", norm=LayerNorm(eps=1e-7))
#: rule, model, what is changed, the use that it then may not be put to
BROKEN = [
    ("positive-sizes", "bert", {f"{ENCODER}.depth": 0}, "build"),
    ("positive-limits", "mpt", {f"{DECODER}.block.attention.clip": 0.0}, "build"),
    ("positive-limits", "bloom", {f"{DECODER}.positions.max_bias": -8.0}, "build"),
    ("positive-limits", "gemma-2", {"architecture.heads.causal_lm.softcap": 0.0}, "build"),
    ("shared-norm", "falcon", {f"{DECODER}.block.layout.order": "serial"}, "build"),
    ("shared-norm", "falcon", {f"{DECODER}.block.layout.attention": ("shared",)}, "build"),
    ("shared-norm", "gpt-neox", {f"{DECODER}.block.layout.feedforward": ("before", "shared")}, "build"),
    ("parallel-join", "bert", {f"{ENCODER}.block.layout.order": "parallel"}, "build"),
    ("normed-residual", "bert", {f"{ENCODER}.block.layout.residual": "normed"}, "build"),
    ("normed-residual", "gpt-neox", {f"{DECODER}.block.layout.residual": "normed"}, "build"),
    ("kv-heads", "llama", {f"{DECODER}.block.attention.kv_heads": 5}, "build"),
    ("window", "mistral", {f"{DECODER}.block.attention.window": 0}, "build"),
    ("rotary-even", "llama", {f"{DECODER}.positions.fraction": 3 / 64}, "build"),
    ("rope-scaling", "llama", {f"{DECODER}.positions.scaling": LinearScaling(factor=0.0)}, "build"),
    ("rope-scaling", "llama", {f"{DECODER}.positions": Rotary(fraction=2 / 64, scaling=NtkScaling(factor=2.0))},
     "build"),
    ("even-buckets", "t5", {f"{ENCODER}.positions.buckets": 31}, "build"),
    ("even-buckets", "deberta-v2", {f"{ENCODER}.positions.buckets": 255}, "build"),
    ("own-key-heads", "deberta", {f"{ENCODER}.block.attention.kv_heads": 4}, "build"),
    ("latent-positions", "deepseek-v3", {f"{DECODER}.positions": RelativeBuckets()}, "build"),
    ("latent-positions", "deepseek-v3", {f"{DECODER}.positions": Alibi()}, "build"),
    ("causal-convolution", "gpt2", {f"{DECODER}.inserts": {0: CONV}}, "build"),
    ("convolution-shape", "deberta-v2", {f"{ENCODER}.inserts.0.kernel": 4}, "build"),
    ("convolution-shape", "deberta-v2", {f"{ENCODER}.inserts.0.groups": 7}, "build"),
    ("convolution-shape", "deberta-v2", {f"{ENCODER}.inserts": {99: CONV}}, "build"),
    ("expert-counts", "mixtral", {f"{DECODER}.block.feedforward.active": 9}, "build"),
    ("expert-counts", "deepseek-v3", {f"{DECODER}.block.feedforward.router.groups": 7}, "build"),
    ("expert-counts", "deepseek-v3", {f"{DECODER}.block.feedforward.active": 129}, "build"),
    ("tie-shape", "albert", {"architecture.heads.masked_lm.transform.width": 64}, "build"),
    ("tie-shape", "t5", {f"{DECODER}.input.vocab": 100}, "build"),
    ("tie-shape", "gpt2", {"architecture.heads.causal_lm.tie": "encoder.input.table"}, "build"),
    ("pooler", "bert", {"architecture.pooler": None}, "build"),
    ("one-question", "bert", {"architecture.heads.multiple_choice.labels": 2}, "build"),
    ("shares", "bert", {"objective.masking.rate": 1.5}, "build"),
    ("shares", "bert", {"objective.masking.random": 0.3}, "build"),
    ("shares", "t5", {"objective.masking.span": 0.5}, "build"),
    ("shares", "bart", {"objective.permuted": -0.5}, "build"),
    ("shares", "electra", {"objective.generator.width": 0.0}, "build"),
    ("temperatures", "distilbert", {"objective.teacher.temperature": 0.0}, "build"),
    ("reads-text", "vit", {}, "masked_lm"),
    ("reads-text", "whisper", {}, "span_corruption"),
    ("prefix", "bert", {}, "prefix_lm"),
    ("prefix", "transformer-xl", {}, "prefix_lm"),
    ("prefix", "mistral", {}, "prefix_lm"),
    ("one-state", "t5", {"architecture.heads.embedding": EmbeddingHead(take="mean")}, "build"),
    ("head-embedding", "bert", {}, "embedding"),
    ("head-answer-span", "bert", {}, "answer_span"),
    ("late-positions", "bert", {"architecture.heads.masked_lm": EnhancedMaskDecoder(rows=30)}, "build"),
    ("head-multiple-choice", "bert", {"architecture.heads.multiple_choice": None}, "multiple_choice"),
    ("sharing-shape", "albert", {f"{ENCODER}.pattern": (At(layers="3", set={"feedforward.width": 8}),)}, "build"),
    ("sharing-shape", "albert", {f"{ENCODER}.sharing": Sharing(groups=13)}, "build"),
    ("memory", "bert", {f"{ENCODER}.memory": 128}, "build"),
    ("global-attention", "longformer", {f"{ENCODER}.mask": "causal"}, "build"),
    ("global-attention", "longformer", {f"{ENCODER}.memory": 8, f"{ENCODER}.positions": RecurrentRelative()}, "build"),
    ("global-attention", "t5", {f"{DECODER}.block.cross": GlobalLocalAttention(heads=8, kv_heads=8, head_dim=64)},
     "build"),
    ("global-tokens", "bert", {"architecture.heads.sequence_classification.global_tokens": FirstToken()}, "build"),
    ("global-tokens", "longformer", {"architecture.heads.question_answering.global_tokens.separator": 50_265}, "build"),
    ("memory-alone", "gpt2", {f"{DECODER}.first_memory": "zeros"}, "build"),
    ("memory-alone", "t5", {f"{DECODER}.memory": 8, f"{DECODER}.positions": RecurrentRelative()}, "build"),
    ("clusters", "transformer-xl", {f"{DECODER}.input.clusters.cutoffs": (40_000, 20_000)}, "build"),
    ("clusters", "transformer-xl", {f"{DECODER}.input.clusters.cutoffs": ()}, "build"),
    ("clusters", "transformer-xl", {f"{DECODER}.input.vocab": 200_000}, "build"),
    ("clusters", "transformer-xl", {f"{DECODER}.input.rank": 63}, "build"),
    ("clusters", "gpt2", {f"{DECODER}.input.clusters": Clusters(cutoffs=(20_000,))}, "build"),
    ("clusters", "t5", {f"{DECODER}.input.clusters": Clusters(cutoffs=(20_000,))}, "build"),
    ("adaptive-softmax", "gpt2", {"architecture.heads.causal_lm": AdaptiveSoftmax()}, "build"),
    ("adaptive-softmax", "transformer-xl", {"architecture.heads.causal_lm.tie": None}, "build"),
    ("adaptive-softmax", "transformer-xl", {"architecture.heads.causal_lm.tie": "encoder.input.table"}, "build"),
    ("adaptive-softmax", "transformer-xl", {"architecture.heads.causal_lm.tied_projections": (4,)}, "build"),
    ("adaptive-softmax", "transformer-xl", {"objective.label_smoothing": 0.1}, "build"),
    ("decoder-mask", "gpt2", {f"{DECODER}.mask": "bidirectional"}, "build"),
    ("cross-attention", "t5", {ENCODER: None}, "build"),
    ("cross-attention", "t5", {f"{DECODER}.block.cross": None}, "build"),
    ("cross-attention", "bert", {ENCODER: None}, "build"),
    ("position-rows", "roberta", {f"{ENCODER}.input.positions.rows": 2}, "build"),
    ("input-shape", "vit", {f"{ENCODER}.input.patch": 15}, "build"),
    ("input-shape", "vit", {f"{ENCODER}.input.positions.rows": 196}, "build"),
    ("input-shape", "vit", {f"{ENCODER}.input.positions.count": "ids"}, "build"),
    ("input-shape", "gpt2", {f"{DECODER}.input": PatchInput(positions=None)}, "build"),
    ("word-scores", "vit", {"architecture.heads": {"masked_lm": VocabularyHead()}}, "build"),
    ("text-choices", "vit", {"architecture.heads": {"multiple_choice": SequenceHead(take="first", labels=1)}}, "build"),
    ("special-ids", "roberta", {f"{ENCODER}.input.pad_id": 50_265}, "build"),
    ("recurrent-alone", "bilm", {"architecture.width": 1023}, "build"),
    ("recurrent-alone", "bilm", {"architecture.recurrent.input.segments": 2}, "build"),
    ("two-halves", "bert", {"architecture.heads.bidirectional_lm": TwoWayHead()}, "build"),
    ("two-halves", "bilm", {"architecture.heads.bidirectional_lm.tie": "encoder.input.table"}, "build"),
    ("two-halves", "bilm", {"architecture.heads.masked_lm": VocabularyHead()}, "build"),
    ("two-directions", "bert", {}, "bidirectional_lm"),
    ("no-copying", "bilm", {}, "causal_lm"),
    ("left-to-right", "bilm", {}, "generate"),
    ("end-id", "t5", {"architecture.heads.sequence_classification.end_id": None}, "build"),
    ("end-id", "bart", {"architecture.heads.sequence_classification.end_id": 50_265}, "build"),
    ("start-id", "t5", {f"{DECODER}.input.start_id": None}, "build"),
    ("start-id", "t5", {f"{DECODER}.input.pad_id": None}, "build"),
    ("layer-numbers", "bert", {f"{ENCODER}.pattern": (At(layers="12", set={"attention.window": 8}),)}, "build"),
    ("probabilities", "bert", {f"{ENCODER}.block.dropout": 1.0}, "build"),
    ("left-to-right", "bert", {}, "generate"),
    ("left-to-right", "xlnet", {}, "generate"),
    ("word-head", "gpt2", {"architecture.heads.causal_lm": None}, "generate"),
    ("both-sides", "gpt2", {}, "fill_mask"),
    ("both-sides", "t5", {}, "masked_lm"),
    ("both-sides", "bert", {f"{ENCODER}.mask": "causal"}, "masked_lm"),
    ("no-copying", "bert", {}, "causal_lm"),
    ("no-copying", "t5", {}, "causal_lm"),
    ("two-stacks", "bert", {}, "span_corruption"),
    ("two-stacks", "gpt2", {}, "seq2seq_lm"),
    ("two-streams", "bert", {}, "permutation_lm"),
    ("two-streams", "gpt2", {}, "permutation_lm"),
    ("two-streams", "xlnet", {f"{ENCODER}.positions": Disentangled(span=4)}, "permutation_lm"),
    ("two-streams", "xlnet", {f"{ENCODER}.input.query_vector": False}, "permutation_lm"),
    ("soft-targets", "xlnet", {}, "distillation"),
    ("one-label", "bert", {}, "replaced_token"),
    ("one-label", "electra", {"architecture.heads.replaced_token": TokenHead(labels=2)}, "replaced_token"),
    ("pair-head", "roberta", {}, "next_sentence"),
    ("pair-head", "roberta", {}, "sentence_order"),
    ("head-masked-lm", "xlnet", {}, "fill_mask"),
    ("head-causal-lm", "gpt2", {"architecture.heads.causal_lm": TokenHead()}, "causal_lm"),
    ("head-permutation-lm", "xlnet", {"architecture.heads.permutation_lm": None}, "permutation_lm"),
    ("two-stacks", "gpt2", {}, "infilling"),
    ("two-stacks", "bert", {}, "gap_sentences"),
    ("two-stacks", "llama", {}, "text_to_text"),
    ("head-seq2seq-lm", "t5", {"architecture.heads.seq2seq_lm": None}, "span_corruption"),
    ("head-bidirectional-lm", "bilm", {"architecture.heads.bidirectional_lm": None}, "bidirectional_lm"),
    ("head-sequence-classification", "bert", {"architecture.heads.sequence_classification": None},
     "sequence_classification"),
    ("head-image-classification", "bert", {}, "image_classification"),
    ("head-token-classification", "bert", {"architecture.heads.token_classification": None}, "token_classification"),
    ("head-question-answering", "bert", {"architecture.heads.question_answering": None}, "question_answering"),
]  # fmt: skip
FITS = [
    ("gpt2", "generate"), ("t5", "generate"), ("llama-3", "causal_lm"), ("bert", "fill_mask"),
    ("bert", "next_sentence"),
    ("albert", "sentence_order"), ("xlnet", "permutation_lm"), ("electra", "replaced_token"),
    ("t5-v1_1", "span_corruption"), ("bart", "infilling"), ("pegasus", "gap_sentences"),
    ("transformer", "text_to_text"), ("bilm", "bidirectional_lm"), ("bilm", "embed"), ("mbart", "generate"),
    ("flan-t5", "text_to_text"), ("byt5", "span_corruption"),
    ("distilbert", "distillation"), ("modernbert", "masked_lm"), ("bert", "embed"),
    ("gpt2", "embed"), ("t5", "seq2seq_lm"), ("deberta-v3", "question_answering"), ("roberta", "contrastive"),
    ("muril", "translation_lm"), ("llama", "prefix_lm"), ("t5", "prefix_lm"), ("whisper", "text_to_text"),
]  # fmt: skip


def changed(name: str, values: dict[str, object]) -> Model:
    return find(name).set(values)


@pytest.mark.parametrize(("rule", "name", "values", "use"), BROKEN)
def test_a_broken_rule_is_found_and_says_why(rule: str, name: str, values: dict[str, object], use: str) -> None:
    model = changed(name, values)
    assert rule in {problem.rule for problem in problems(model, use)}
    with pytest.raises(UsageError) as raised:
        require(model, use)
    assert raised.value.exit_code == 2
    assert raised.value.remedy


def test_every_rule_has_a_model_that_breaks_it() -> None:
    assert {rule for rule, *_ in BROKEN} == {rule.id for rule in RULES}
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_reason_and_remedy_are_clauses_that_join_one_line() -> None:
    for rule in RULES:
        for text in (rule.reason, rule.remedy):
            assert text
            assert not text.endswith(".")
            assert "\n" not in text
        assert set(rule.uses) <= set(USES)


@pytest.mark.parametrize(("name", "use"), FITS)
def test_what_fits_is_not_refused(name: str, use: str) -> None:
    require(find(name), use)


@pytest.mark.mechanism("G4")
def test_an_encoder_asked_to_generate_learns_why_not() -> None:
    with pytest.raises(UsageError, match="cannot generate left to right: every state has seen the tokens after it"):
        require(find("bert"), "generate")


@pytest.mark.parametrize("name", models())
def test_no_published_model_breaks_a_rule(name: str) -> None:
    model = find(name)
    for size in (model, *(model.sized(key) for key in model.sizes)):
        assert check(size) == []


@pytest.mark.parametrize("name", ALL)
def test_what_the_rules_allow_can_be_built(name: str) -> None:
    assert check(ALL[name]) == []
    model = build(ALL[name])
    assert {key: tuple(p.shape) for key, p in model.named_parameters()} == tensors(ALL[name].architecture)


def test_check_covers_the_objective_that_a_spec_names_but_no_further_head() -> None:
    assert check(changed("bert", {"objective.kind": "causal_lm"}))[0].rule == "no-copying"
    assert check(changed("bert", {"architecture.heads.masked_lm": None})) == []


def test_heads_times_head_dim_need_not_be_the_width() -> None:
    assert check(changed("llama", {f"{DECODER}.block.attention.head_dim": 256})) == []


def test_where_a_layer_of_its_own_breaks_a_rule_the_layer_is_named() -> None:
    model = changed("bert", {f"{ENCODER}.pattern": (At(layers="4", set={"attention.window": -1}),)})
    assert [problem.where for problem in check(model)] == [f"{ENCODER}, layer 4.attention.window"]


def test_a_pooler_mends_what_its_lack_broke() -> None:
    roberta = changed("roberta", {"architecture.heads.sequence_classification": SequenceHead(take="pooler")})
    assert check(roberta) == []
    bare = roberta.set({"architecture.pooler": None})
    assert {problem.rule for problem in check(bare)} == {"pooler"}
    assert check(bare.set({"architecture.pooler": Pooler()})) == []


def test_an_unknown_use_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean generate"):
        require(find("gpt2"), "genrate")


@pytest.mark.parametrize(
    ("a", "b", "measure", "why"),
    [
        ("bert", "gpt2", "loss", "different questions"),
        ("bert", "xlnet", "bits_per_byte", "different questions"),
        ("gpt2", "llama", "loss", "bits per byte"),
        ("bert", "roberta", "loss", "compare scores"),
        ("bert", "albert", "bits_per_byte", "does not assign"),
    ],
)
def test_measures_that_mean_different_things_are_not_compared(a: str, b: str, measure: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        comparable(find(a), find(b), measure)  # type: ignore[arg-type]


@pytest.mark.parametrize(("field", "value"), [("masking.rate", 0.3), ("masking.mask", 0.9), ("pair", None)])
def test_a_loss_is_not_compared_where_more_is_hidden_or_asked(field: str, value: object) -> None:
    other = find("bert").set({f"objective.{field}": value})
    with pytest.raises(UsageError, match="different questions"):
        comparable(find("bert"), other, "loss")
    comparable(find("bert"), find("bert").set({"objective.masking.copies": None}), "loss")


@pytest.mark.parametrize(
    ("a", "b", "measure"),
    [
        ("bert", "gpt2", "score"), ("gpt2", "llama", "bits_per_byte"), ("llama", "llama-2", "loss"),
        ("bert", "distilbert", "score"),
    ],
)  # fmt: skip
def test_measures_that_mean_the_same_are(a: str, b: str, measure: str) -> None:
    comparable(find(a), find(b), measure)  # type: ignore[arg-type]


def test_heads_that_split_the_width_must_divide_it() -> None:
    assert head_dim(768, 12) == 64
    with pytest.raises(UsageError, match="7 heads do not divide the width 768"):
        head_dim(768, 7, where="config.json")
