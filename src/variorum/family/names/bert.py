"""How BERT, RoBERTa, ALBERT, DistilBERT and ELECTRA are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from variorum.family.bert import ALBERT, BERT, DISTILBERT, ELECTRA, ROBERTA, TABLE, XLM_ROBERTA
from variorum.family.names.common import head_width
from variorum.spec.architecture import Sharing
from variorum.spec.dialect import ACTIVATION, Dialect, Drop, Key, Rule, same, tied_to
from variorum.spec.model import Model

E = "architecture.encoder"
MLM, RTD = "architecture.heads.masked_lm", "architecture.heads.replaced_token"
NSP = "architecture.heads.next_sentence"
L = "encoder.layers.{i}"
POSITION_IDS = Drop(r"(.*\.)?embeddings\.(position_ids|token_type_ids)", "a constant buffer")


def encoder_keys(
    *, width: str = "hidden_size", depth: str = "num_hidden_layers", heads: str = "num_attention_heads",
    ff: str = "intermediate_size", activation: str = "hidden_act", dropout: str = "hidden_dropout_prob",
    attention_dropout: str = "attention_probs_dropout_prob",
) -> tuple[Key, ...]:  # fmt: skip
    """The config keys every BERT-like encoder has, under its own spelling."""
    return (
        Key(width, ("architecture.width",)),
        Key(depth, (f"{E}.depth",)),
        Key(heads, (f"{E}.block.attention.heads", f"{E}.block.attention.kv_heads")),
        Key(ff, (f"{E}.block.feedforward.width",)),
        Key(activation, (f"{E}.block.feedforward.activation", f"{MLM}.transform.activation"), ACTIVATION),
        Key(dropout, (f"{E}.block.dropout", f"{E}.input.dropout")),
        Key(attention_dropout, (f"{E}.block.attention.dropout",)),
        Key("vocab_size", (f"{E}.input.vocab",)),
        Key("max_position_embeddings", (f"{E}.input.positions.rows",)),
        Key("pad_token_id", (f"{E}.input.pad_id",), none="none"),
        Key("initializer_range", ("architecture.init.std",)),
        Key("tie_word_embeddings", (f"{MLM}.tie",), tied_to(TABLE)),
    )


NORMS = (f"{E}.block.layout.norm.eps", f"{E}.input.norm.eps", f"{MLM}.transform.norm.eps")
EPS = Key("layer_norm_eps", NORMS)
SEGMENTS = Key("type_vocab_size", (f"{E}.input.segments",))


def head_dim(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """The width of one head follows from the others."""
    encoder = model.architecture.encoder
    assert encoder is not None
    return {f"{E}.block.attention.head_dim": head_width(model.architecture.width, encoder.block.attention.heads)}


LABELLED = tuple(f"architecture.heads.{name}" for name in (
    "sequence_classification", "token_classification", "multiple_choice",
))  # fmt: skip


def bert_values(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """What BERT and its like compute from the rest: the width of a head, dropout before the classifiers, and where
    positions begin that count ids.

    A classifier with a layer of its own in the pooler's place drops on both sides of it, and the choice between texts,
    which reads the pooler, as a block does.
    """
    arch = model.architecture
    rate, own = config.get("classifier_dropout"), arch.main.block.dropout
    rate = own if rate is None else rate
    values = head_dim(config, model) | {f"{head}.dropout": rate for head in LABELLED}
    if getattr(arch.heads.get("sequence_classification"), "transform", None) is not None:
        values |= {f"{LABELLED[0]}.transform_dropout": rate, f"{LABELLED[2]}.dropout": own}
    if getattr(arch.main.input.positions, "count", "mask") == "ids":
        values[f"{E}.input.positions.offset"] = config["pad_token_id"] + 1
    return values


def bert_config(model: Model) -> dict[str, object]:
    """The inverse: dropout of its own before the classifiers is named."""
    rate = getattr(model.architecture.heads.get("sequence_classification"), "dropout", None)
    return {"classifier_dropout": None if rate == model.architecture.main.block.dropout else rate}


EMBEDDINGS = (
    same("embeddings.word_embeddings", "encoder.input.table"),
    same("embeddings.position_embeddings", "encoder.input.positions"),
    same("embeddings.token_type_embeddings", "encoder.input.segments"),
    same("embeddings.LayerNorm", "encoder.input.norm"),
)


def layer_rules(disk: str, names: Mapping[str, str]) -> tuple[Rule, ...]:
    """One rule per sublayer: our name below the layer -> its on-disk name."""
    return tuple(same(f"{disk}.{theirs}", f"{L}.{ours}") for ours, theirs in names.items())


LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.out": "attention.output.dense",
    "attention_norms.join": "attention.output.LayerNorm",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "feedforward_norms.join": "output.LayerNorm",
}
CLASSIFIERS = (
    same("classifier", "heads.sequence_classification.project"),
    same("classifier", "heads.token_classification.project"),
    same("classifier", "heads.multiple_choice.project"),
    same("qa_outputs", "heads.question_answering.project"),
)
DENSE_CLASSIFIER = (
    same("classifier.dense", "heads.sequence_classification.transform.dense"),
    same("classifier.out_proj", "heads.sequence_classification.project"),
    *CLASSIFIERS[1:],
)


def classes(prefix: str, **more: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Published class names of one family; further ones come as keywords."""
    named = {f"{prefix}{name}": heads for name, heads in more.items()}
    return named | {
        f"{prefix}Model": (),
        f"{prefix}ForMaskedLM": ("masked_lm",),
        f"{prefix}ForSequenceClassification": ("sequence_classification",),
        f"{prefix}ForTokenClassification": ("token_classification",),
        f"{prefix}ForMultipleChoice": ("multiple_choice",),
        f"{prefix}ForQuestionAnswering": ("question_answering",),
    }


def masked_lm(dense: str, norm: str, bias: str) -> tuple[Rule, ...]:
    """On-disk names of the masked language model's own tensors; its matrix is the table."""
    ours = ("transform.dense", "transform.norm", "project.bias")
    return tuple(same(disk, f"heads.masked_lm.{name}") for disk, name in zip((dense, norm, bias), ours, strict=True))


def copies(decoder: str) -> dict[str, str]:
    """What a tied decoder repeats, in the releases that store it."""
    return {f"{decoder}.weight": f"{TABLE}.weight", f"{decoder}.bias": "heads.masked_lm.project.bias"}


PRETRAINED = ("masked_lm", "next_sentence")
BERT_NAMES = Dialect(
    model_type="bert",
    base=BERT,
    prefix="bert.",
    keys=(*encoder_keys(), EPS, SEGMENTS),
    rules=(*EMBEDDINGS, *layer_rules("encoder.layer.{i}", LAYER), same("pooler.dense", "pooler.dense")),
    heads=(
        *masked_lm("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
        same("cls.predictions.decoder.weight", "heads.masked_lm.project.weight"),
        same("cls.seq_relationship", "heads.next_sentence.project"),
        *CLASSIFIERS,
    ),
    classes=classes("Bert", ForPreTraining=PRETRAINED, ForNextSentencePrediction=("next_sentence",)),
    required={"position_embedding_type": "absolute", "is_decoder": False},
    read=bert_values,
    write=bert_config,
    drops=(POSITION_IDS,),
    duplicates=copies("cls.predictions.decoder"),
    older={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
)


ROBERTA_NAMES = BERT_NAMES.but(model_type="roberta", base=ROBERTA, prefix="roberta.", classes=classes("Roberta"),
    duplicates=copies("lm_head.decoder"),
    heads=(*masked_lm("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"), *DENSE_CLASSIFIER),
)  # fmt: skip
XLM_ROBERTA_NAMES = ROBERTA_NAMES.but(model_type="xlm-roberta", base=XLM_ROBERTA, classes=classes("XLMRoberta"))


def _albert(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    inner = config.get("inner_group_num", 1)
    rank = config.get("embedding_size", 128)
    encoder = model.architecture.encoder
    assert encoder is not None
    return head_dim(config, model) | {
        f"{E}.sharing": Sharing(groups=config.get("num_hidden_groups", 1), inner=inner),
        f"{E}.depth": encoder.depth * inner,
        f"{MLM}.transform.width": rank,
        **{f"{head}.dropout": config.get("classifier_dropout_prob", 0.1) for head in (*LABELLED, NSP)},
    }


def _albert_config(model: Model) -> dict[str, object]:
    encoder = model.architecture.encoder
    assert encoder is not None and encoder.sharing is not None
    sharing = encoder.sharing
    return {
        "num_hidden_layers": encoder.depth // sharing.inner,
        "num_hidden_groups": sharing.groups,
        "inner_group_num": sharing.inner,
        "classifier_dropout_prob": getattr(model.architecture.heads.get("sequence_classification"), "dropout", 0.1),
    }


ALBERT_LAYER = {
    "attention.query": "attention.query",
    "attention.key": "attention.key",
    "attention.value": "attention.value",
    "attention.out": "attention.dense",
    "attention_norms.join": "attention.LayerNorm",
    "feedforward.up": "ffn",
    "feedforward.down": "ffn_output",
    "feedforward_norms.join": "full_layer_layer_norm",
}
ALBERT_NAMES = BERT_NAMES.but(
    model_type="albert",
    base=ALBERT,
    prefix="albert.",
    keys=(*BERT_NAMES.keys, Key("embedding_size", (f"{E}.input.rank",))),
    rules=(
        *EMBEDDINGS,
        same("encoder.embedding_hidden_mapping_in", "encoder.input.project"),
        *layer_rules("encoder.albert_layer_groups.{group}.albert_layers.{inner}", ALBERT_LAYER),
        same("pooler", "pooler.dense"),
    ),
    heads=(
        *masked_lm("predictions.dense", "predictions.LayerNorm", "predictions.bias"),
        same("sop_classifier.classifier", "heads.next_sentence.project"),
        *CLASSIFIERS,
    ),
    classes=classes("Albert", ForPreTraining=PRETRAINED),
    read=_albert,
    write=_albert_config,
    duplicates=copies("predictions.decoder"),
)

DISTIL_LAYER = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.out": "attention.out_lin",
    "attention_norms.join": "sa_layer_norm",
    "feedforward.up": "ffn.lin1",
    "feedforward.down": "ffn.lin2",
    "feedforward_norms.join": "output_layer_norm",
}
_DISTIL_SPELLING = encoder_keys(
    width="dim", depth="n_layers", heads="n_heads", ff="hidden_dim", activation="activation", dropout="dropout",
    attention_dropout="attention_dropout",
)  # fmt: skip
DISTILBERT_NAMES = BERT_NAMES.but(
    model_type="distilbert",
    base=DISTILBERT,
    prefix="distilbert.",
    keys=(
        *_DISTIL_SPELLING,
        Key("seq_classif_dropout", (f"{LABELLED[0]}.dropout", f"{LABELLED[2]}.dropout")),
        Key("qa_dropout", ("architecture.heads.question_answering.dropout",)),
    ),
    rules=(*EMBEDDINGS, *layer_rules("transformer.layer.{i}", DISTIL_LAYER)),
    heads=(
        *masked_lm("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
        same("pre_classifier", "heads.sequence_classification.transform.dense"),
        same("pre_classifier", "heads.multiple_choice.transform.dense"),
        *CLASSIFIERS,
    ),
    classes=classes("DistilBert"),
    required={"sinusoidal_pos_embds": False},
    read=lambda config, model: (
        head_dim(config, model) | {f"{LABELLED[1]}.dropout": model.architecture.main.block.dropout}
    ),
    write=lambda model: {},
    duplicates={"vocab_projector.weight": "encoder.input.table.weight"},
)


def _electra(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    width = model.architecture.width
    rank = config.get("embedding_size", width)
    return bert_values(config, model) | {
        f"{LABELLED[2]}.dropout": config.get("summary_last_dropout", 0.1),
        f"{E}.input.rank": None if rank == width else rank,
        f"{MLM}.transform.width": rank,
        f"{MLM}.transform.activation": "gelu",
        f"{RTD}.transform.activation": model.architecture.main.block.feedforward.activation,
    }


def _electra_config(model: Model) -> dict[str, object]:
    return bert_config(model) | {
        "embedding_size": getattr(model.architecture.main.input, "rank", None) or model.architecture.width,
        "summary_last_dropout": getattr(model.architecture.heads.get("multiple_choice"), "dropout", 0.1),
    }


ELECTRA_NAMES = BERT_NAMES.but(
    model_type="electra",
    base=ELECTRA,
    prefix="electra.",
    rules=(*BERT_NAMES.rules, same("embeddings_project", "encoder.input.project")),
    heads=(
        *masked_lm("generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias"),
        same("discriminator_predictions.dense", "heads.replaced_token.transform.dense"),
        same("discriminator_predictions.dense_prediction", "heads.replaced_token.project"),
        same("sequence_summary.summary", "heads.multiple_choice.transform.dense"),
        *DENSE_CLASSIFIER,
    ),
    classes=classes("Electra", ForPreTraining=("replaced_token",)),
    required={"position_embedding_type": "absolute", "summary_type": "first", "summary_use_proj": True,
              "summary_activation": "gelu"},
    read=_electra,
    write=_electra_config,
    duplicates={"generator_lm_head.weight": "encoder.input.table.weight"},
)  # fmt: skip
DIALECTS = (BERT_NAMES, ROBERTA_NAMES, XLM_ROBERTA_NAMES, ALBERT_NAMES, DISTILBERT_NAMES, ELECTRA_NAMES)
