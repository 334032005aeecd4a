"""BERT and the encoders that changed how it is trained, not how it computes."""

from __future__ import annotations

import dataclasses
import functools

from variorum.family.transformer import TRANSFORMER, alone
from variorum.spec.architecture import Init, Pooler, Sharing, post
from variorum.spec.attention import ALL_PROJECTIONS, Attention
from variorum.spec.feedforward import MLP
from variorum.spec.heads import SequenceHead, TokenHead, Transform, VocabularyHead
from variorum.spec.inputs import TokenInput
from variorum.spec.model import (
    BUDGET,
    COMPRESSION,
    MECHANISM,
    OBJECTIVE,
    POSITIONS,
    TOKENIZER,
    TRAINING,
    Change,
    Size,
)
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Learned
from variorum.spec.recipe import Generator, Masking, Objective, Recipe, Teacher, Tokenizer

NORM = LayerNorm(eps=1e-12)
TABLE = "encoder.input.table"
E, H = "architecture.encoder", "architecture.heads"
#: What a published size sets.
shape = functools.partial(alone, "encoder")

_FIRST = {
    "masked_lm": VocabularyHead(tie=TABLE, bias=True, transform=Transform(activation="gelu", norm=NORM)),
    "next_sentence": SequenceHead(take="pooler", dropout=0.0),
    "sequence_classification": SequenceHead(take="pooler"),
    "multiple_choice": SequenceHead(take="pooler", labels=1),
    "token_classification": TokenHead(),
    "question_answering": TokenHead(dropout=0.0),
}
_INPUT = TokenInput(vocab=30_522, segments=2, positions=Learned(rows=512), norm=NORM, dropout=0.1)
BERT = TRANSFORMER.variant(
    "bert",
    cite="Devlin et al. 2018, arXiv:1810.04805",
    changes=[
        Change("architecture.decoder", None, MECHANISM, "nothing is written, so every state may look both ways",
               relieves="latency", also={H: _FIRST, "architecture.pooler": Pooler()}),
        Change("objective", Objective(kind="masked_lm", masking=Masking(copies=10), pair="next_sentence"), OBJECTIVE,
               "raw text teaches by what is hidden in it; tasks are learned after it", relieves="data-efficiency"),
        Change(f"{E}.input", _INPUT, POSITIONS, "learned positions, a vector for each text of a pair, normed"),
        Change(f"{E}.block.attention",
               Attention(heads=12, kv_heads=12, head_dim=64, bias=ALL_PROJECTIONS, dropout=0.1), BUDGET,
               "110 million parameters", also={"architecture.width": 768, f"{E}.depth": 12}),
        Change(f"{E}.block.feedforward", MLP(width=3072, activation="gelu"), MECHANISM, "GELU, as in GPT"),
        Change(f"{E}.block.layout", post(NORM), TRAINING, "released code"),
        Change("tokenizer", Tokenizer(kind="wordpiece", cased=False), TOKENIZER, "30,000 lower-cased word pieces"),
        Change("recipe", Recipe(batch=256, length=512, steps=1_000_000, learning_rate=1e-4, warmup=10_000,
                                weight_decay=0.01, schedule="linear", betas=(0.9, 0.999), eps=1e-6, clip=1.0,
                                early_length=128, early_share=0.9, format="segment_pair"),
               TRAINING, "books and Wikipedia, 40 times",
               also={"architecture.init": Init()}),
    ],
    weaknesses=("under-training", "useless-objective", "signal-density", "length-extrapolation", "parameter-bloat"),
    sizes={
        "bert-base-uncased": Size(shape(768, 12, 12, vocab=30_522), "google-bert/bert-base-uncased", 110e6),
        "bert-large-uncased": Size(shape(1024, 24, 16, vocab=30_522), "google-bert/bert-large-uncased", 340e6),
        "bert-base-cased": Size(
            shape(768, 12, 12, vocab=28_996) | {"tokenizer.cased": True}, "google-bert/bert-base-cased", 110e6
        ),
        "bert-large-cased": Size(
            shape(1024, 24, 16, vocab=28_996) | {"tokenizer.cased": True}, "google-bert/bert-large-cased", 340e6
        ),
        "bert-base-multilingual-cased": Size(
            shape(768, 12, 12, vocab=119_547) | {"tokenizer.cased": True}, "google-bert/bert-base-multilingual-cased",
            179e6,
        ),
        "bert-base-multilingual-uncased": Size(
            shape(768, 12, 12, vocab=105_879), "google-bert/bert-base-multilingual-uncased", 168e6
        ),
    },
)  # fmt: skip
BERT = dataclasses.replace(BERT, repo="google-bert/bert-base-uncased", published=110e6)

ROBERTA_SIZES = {
    "roberta-base": Size(shape(768, 12, 12, vocab=50_265), "FacebookAI/roberta-base", 125e6),
    "roberta-large": Size(
        shape(1024, 24, 16, vocab=50_265) | {"recipe.learning_rate": 4e-4, "recipe.warmup": 30_000},
        "FacebookAI/roberta-large",
        355e6,
    ),
}
ROBERTA = BERT.variant("roberta", cite="Liu et al. 2019, arXiv:1907.11692", sizes=ROBERTA_SIZES, changes=[
    Change(f"{E}.input.positions", Learned(rows=514, offset=2, count="ids"), POSITIONS,
           "positions are counted from the padding id", also={f"{E}.input.pad_id": 1}),
    Change(f"{E}.input.segments", 1, OBJECTIVE, "no pairs to tell apart"),
    Change("objective.pair", None, OBJECTIVE, "next-sentence prediction did not help, and forced pairs",
           relieves="useless-objective", also={f"{H}.next_sentence": None, "recipe.format": "full_sentences"}),
    Change("objective.masking.copies", None, TRAINING, "a fresh mask for every pass", relieves="signal-density"),
    Change("tokenizer", Tokenizer(kind="byte-bpe"), TOKENIZER, "no unknown tokens", also={f"{E}.input.vocab": 50_265}),
    Change("recipe.batch", 8192, TRAINING, "ten times the data, larger batches, longer", relieves="under-training",
           also={"recipe.steps": 500_000, "recipe.learning_rate": 6e-4, "recipe.warmup": 24_000,
                 "recipe.betas": (0.9, 0.98), "recipe.clip": 0.0, "recipe.early_length": None}),
    Change(f"{E}.block.layout.norm.eps", 1e-5, TRAINING, "fairseq's epsilon",
           also={f"{E}.input.norm.eps": 1e-5, f"{H}.masked_lm.transform.norm.eps": 1e-5}),
    Change(f"{H}.sequence_classification", SequenceHead(take="first", transform=Transform(activation="tanh"),
           transform_dropout=0.1), OBJECTIVE, "without pair pretraining there is no trained pooler"),
], weaknesses=("signal-density", "length-extrapolation", "parameter-bloat"))  # fmt: skip

MURIL = BERT.variant(
    "muril",
    cite="Khanuja et al. 2021, arXiv:2103.10730",
    changes=[
        Change("tokenizer", Tokenizer(kind="wordpiece"), TOKENIZER, "17 languages of India, their scripts and Latin",
               also={f"{E}.input.vocab": 197_285}),
        Change("objective.pair", None, OBJECTIVE, "pairs are translations and transliterations, in one text (TLM)",
               relieves="useless-objective", also={"objective.kind": "translation_lm"}),
        Change("recipe", Recipe(batch=4096, length=512, steps=1_000_000), TRAINING, "rare languages sampled more"),
    ],
    weaknesses=("signal-density", "length-extrapolation", "parameter-bloat"),
    sizes={"muril-base-cased": Size(shape(768, 12, 12, vocab=197_285), "google/muril-base-cased", 236e6)},
)  # fmt: skip

XLM_ROBERTA = ROBERTA.variant(
    "xlm-roberta",
    cite="Conneau et al. 2019, arXiv:1911.02116",
    changes=[
        Change("tokenizer", Tokenizer(kind="unigram"), TOKENIZER, "one vocabulary for a hundred languages",
               also={f"{E}.input.vocab": 250_002}),
        Change("recipe", Recipe(batch=8192, length=512, steps=1_500_000), TRAINING,
               "2.5 TB of the web, no parallel text, no language ids"),
    ],
    weaknesses=("signal-density", "length-extrapolation", "parameter-bloat"),
    sizes={
        "xlm-roberta-base": Size(shape(768, 12, 12, vocab=250_002), "FacebookAI/xlm-roberta-base", 270e6),
        "xlm-roberta-large": Size(shape(1024, 24, 16, vocab=250_002), "FacebookAI/xlm-roberta-large", 550e6),
    },
)  # fmt: skip

ALBERT_HEAD = VocabularyHead(tie=TABLE, bias=True, transform=Transform(activation="gelu_tanh", width=128, norm=NORM))
ALBERT = BERT.variant(
    "albert",
    cite="Lan et al. 2019, arXiv:1909.11942",
    changes=[
        Change("architecture.encoder.input.rank", 128, COMPRESSION, "words need less width than contexts",
               relieves="parameter-bloat", also={"architecture.heads.masked_lm": ALBERT_HEAD}),
        Change("architecture.encoder.sharing", Sharing(), COMPRESSION, "one layer, applied at every depth",
               relieves="parameter-bloat"),
        Change("objective.pair", "sentence_order", OBJECTIVE, "order is harder than topic, and helps",
               relieves="useless-objective",
               also={"architecture.heads.next_sentence": SequenceHead(take="pooler", dropout=0.1)}),
        Change("tokenizer", Tokenizer(kind="unigram", cased=False), TOKENIZER, "SentencePiece",
               also={"architecture.encoder.input.vocab": 30_000}),
        Change("architecture.encoder.block.feedforward.activation", "gelu_tanh", TRAINING, "released code"),
        Change("architecture.encoder.block.attention.dropout", 0.0, TRAINING, "v2 trains without dropout",
               also={"architecture.encoder.block.dropout": 0.0, "architecture.encoder.input.dropout": 0.0}),
        Change("recipe", Recipe(batch=4096, length=512, steps=125_000, learning_rate=1.76e-3, warmup=3_125,
                                weight_decay=0.01, optimiser="lamb", eps=1e-6, clip=1.0, format="segment_pair"),
               TRAINING, "LAMB at batch 4096"),
    ],
    weaknesses=("latency", "signal-density"),
    sizes={
        f"albert-{size}-v2": Size(shape(width, depth, heads, vocab=30_000), f"albert/albert-{size}-v2", published)
        for size, width, depth, heads, published in (
            ("base", 768, 12, 12, 12e6), ("large", 1024, 24, 16, 18e6),
            ("xlarge", 2048, 24, 16, 60e6), ("xxlarge", 4096, 12, 64, 235e6),
        )
    },
)  # fmt: skip

DISTILLED = SequenceHead(take="first", transform=Transform(activation="relu"), dropout=0.2)
DISTILBERT = BERT.variant(
    "distilbert",
    cite="Sanh et al. 2019, arXiv:1910.01108",
    changes=[
        Change("architecture.encoder.depth", 6, COMPRESSION, "every second teacher layer", relieves="latency"),
        Change("architecture.encoder.input.segments", 0, COMPRESSION, "no pairs in pretraining"),
        Change("architecture.pooler", None, COMPRESSION, "no pair objective to train it",
               also={f"{H}.next_sentence": None, f"{H}.sequence_classification": DISTILLED,
                     f"{H}.multiple_choice": dataclasses.replace(DISTILLED, labels=1),
                     f"{H}.question_answering": TokenHead()}),
        Change("objective", Objective(kind="distillation", masking=Masking(), teacher=Teacher()), OBJECTIVE,
               "soft targets, masked LM and hidden-state cosine", relieves="signal-density"),
        Change("recipe", Recipe(batch=4000, length=512), TRAINING, "large batches, three and a half days on 8 GPUs"),
    ],
    sizes={"distilbert-base-uncased": Size(shape(768, 6, 12, vocab=30_522), "distilbert/distilbert-base-uncased",
                                           66e6)},
)  # fmt: skip


_ELECTRA_RECIPES: dict[str, dict[str, object]] = {
    "small": {"recipe.batch": 128, "recipe.steps": 1_000_000, "recipe.learning_rate": 5e-4},
    "base": {"objective.generator.width": 1 / 3},
    "large": {"recipe.batch": 2048, "recipe.steps": 1_750_000},
}


def _electra(size: str, width: int, depth: int, heads: int, rank: int | None, published: float | None = None) -> Size:
    head = Transform(activation="gelu", width=rank or width, norm=NORM)
    values = shape(width, depth, heads, vocab=30_522, input__rank=rank)
    return Size(
        values | {"architecture.heads.masked_lm.transform": head} | _ELECTRA_RECIPES[size.partition("-")[0]],
        f"google/electra-{size}",
        published,
    )


ELECTRA = BERT.variant(
    "electra",
    cite="Clark et al. 2020, arXiv:2003.10555",
    changes=[
        Change("objective", Objective(kind="replaced_token", masking=Masking(mask=0.85, random=0.0),
                                      generator=Generator()), OBJECTIVE,
               "every token is a training signal, not 15 %", relieves="signal-density",
               also={"architecture.heads.next_sentence": None, "architecture.pooler": None,
                     "architecture.heads.replaced_token":
                     TokenHead(labels=1, transform=Transform(activation="gelu"), dropout=0.0)}),
        Change("architecture.encoder.input.rank", 128, COMPRESSION, "the generator shares a narrow table",
               also={"architecture.heads.masked_lm.transform": Transform(activation="gelu", width=128, norm=NORM)}),
        Change("architecture.heads.sequence_classification",
               SequenceHead(take="first", transform=Transform(activation="gelu"), transform_dropout=0.1),
               OBJECTIVE, "without pair pretraining there is no trained pooler",
               also={f"{H}.multiple_choice": SequenceHead(take="first", labels=1,
                                                          transform=Transform(activation="gelu"))}),
        Change("recipe", Recipe(batch=256, length=512, steps=766_000, learning_rate=2e-4, warmup=10_000,
                                weight_decay=0.01, schedule="linear", betas=(0.9, 0.999), eps=1e-6, clip=1.0,
                                format="doc_sentences"), TRAINING, "base recipe"),
    ],
    sizes={
        "electra-small-discriminator": _electra("small-discriminator", 256, 12, 4, 128, 14e6),
        "electra-small-generator": _electra("small-generator", 256, 12, 4, 128),
        "electra-base-discriminator": _electra("base-discriminator", 768, 12, 12, None, 110e6),
        "electra-base-generator": _electra("base-generator", 256, 12, 4, 768),
        "electra-large-discriminator": _electra("large-discriminator", 1024, 24, 16, None, 335e6),
        "electra-large-generator": _electra("large-generator", 256, 24, 4, 1024),
    },
)  # fmt: skip
MODELS = (BERT, MURIL, ROBERTA, XLM_ROBERTA, ALBERT, DISTILBERT, ELECTRA)
