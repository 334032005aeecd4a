"""BART and its kin: encoder-decoders that learn by restoring damaged text.

BART keeps the norms of 2017 behind each sublayer and learns its positions; mBART puts norms in front and names a
language in every text; PEGASUS keeps sinusoids and learns to write the sentences that a summary would hold.
"""

from __future__ import annotations

import dataclasses

from variorum.family.transformer import ATTENTIONS, TABLE, TRANSFORMER, also, both, shape
from variorum.spec.architecture import Init, post, pre
from variorum.spec.attention import ALL_PROJECTIONS
from variorum.spec.feedforward import MLP
from variorum.spec.heads import SequenceHead, TokenHead, Transform, VocabularyHead
from variorum.spec.model import BUDGET, MECHANISM, OBJECTIVE, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Learned, Sinusoidal
from variorum.spec.recipe import Masking, Objective, Recipe, Tokenizer

NORM = LayerNorm(eps=1e-5)
_POSITIONS, _TABLE_NORMS, _SCALES = both("input.positions"), both("input.norm"), both("input.scale")
_LAYOUTS, _FINAL, _FEEDFORWARDS = both("block.layout"), both("final_norm"), both("block.feedforward")
_PADS, _VOCABS = both("input.pad_id"), both("input.vocab")
_BIASES = tuple(f"{path}.bias" for path in ATTENTIONS)
_DROPOUTS = tuple(f"{path}.dropout" for path in ATTENTIONS)
_GELU = MLP(width=2048, activation="gelu", dropout=0.1)
_LEARNED = Learned(rows=1026, offset=2)
_HEAD = VocabularyHead(tie=TABLE, offset=True)
_JUDGES = SequenceHead(take="end", end_id=2, labels=3, transform=Transform(activation="tanh"), dropout=0.0)
_PRE = dict.fromkeys(_LAYOUTS, pre(NORM)) | dict.fromkeys(_FINAL, NORM)


def _size(
    width: int, depth: int, vocab: int, repo: str | None, published: float, *, length: int = 1024,
    scaled: bool = False, note: str = "",
) -> Size:  # fmt: skip
    values = shape(width, depth, width // 64, 4 * width, vocab=vocab, scaled=scaled)
    return Size({**values, "recipe.length": length}, repo, published, note)


_BASE = {path: value for path, value in shape(768, 6, 12, 3072).items() if path != "architecture.width"}
BART = TRANSFORMER.variant(
    "bart",
    cite="Lewis et al. 2019, arXiv:1910.13461",
    changes=[
        Change("objective", Objective(kind="infilling", masking=Masking(rate=0.3, mask=1.0, random=0.0, span=3.0),
                                      label_smoothing=0.1, permuted=1.0), OBJECTIVE,
               "one mask for a span of unknown length, sentences in another order", relieves="task-alignment"),
        Change(_POSITIONS[0], _LEARNED, POSITIONS, "learned, counted from 2 as in RoBERTa",
               also=also(_POSITIONS, _LEARNED)),
        Change(_TABLE_NORMS[0], NORM, MECHANISM, "embeddings are normed, and so need no scale",
               also=also(_TABLE_NORMS, NORM) | dict.fromkeys(_SCALES)),
        Change(_FEEDFORWARDS[0], _GELU, MECHANISM, "GELU, as in GPT", also=also(_FEEDFORWARDS, _GELU)),
        Change(_BIASES[0], ALL_PROJECTIONS, MECHANISM, "every projection has a bias",
               also=also(_BIASES, ALL_PROJECTIONS) | dict.fromkeys(_LAYOUTS, post(NORM))),
        Change("architecture.heads.seq2seq_lm", _HEAD, MECHANISM, "a constant is added to the scores, and is zero"),
        Change("architecture.heads.sequence_classification", _JUDGES, OBJECTIVE,
               "the decoder re-reads the text; its state at the end judges the whole",
               also={"architecture.heads.question_answering": TokenHead(dropout=0.0)}),
        Change("tokenizer", Tokenizer(kind="byte-bpe"), TOKENIZER, "GPT-2's; the decoder starts with the end token",
               also=dict.fromkeys(_VOCABS, 50_265) | dict.fromkeys(_PADS, 1)
               | {"architecture.decoder.input.start_id": 2}),
        Change("architecture.width", 768, BUDGET, "139 million parameters", also=_BASE),
        Change("recipe", Recipe(batch=8000, length=1024, steps=500_000, schedule="linear"), TRAINING,
               "RoBERTa's 160 GB", relieves="under-training",
               also=dict.fromkeys(_DROPOUTS, 0.1) | {"architecture.init": Init()}),
    ],
    weaknesses=("length-extrapolation", "quadratic-attention"),
    sizes={
        "bart-base": _size(768, 6, 50_265, "facebook/bart-base", 139e6),
        "bart-large": _size(1024, 12, 50_265, "facebook/bart-large", 406e6),
    },
)  # fmt: skip
BART = dataclasses.replace(BART, repo="facebook/bart-base", published=139e6)

MBART = BART.variant(
    "mbart",
    cite="Liu et al. 2020, arXiv:2001.08210",
    changes=[
        Change(_LAYOUTS[0], pre(NORM), MECHANISM, "norms in front and at the end of each stack: 12 layers stay stable",
               relieves="training-stability", also={k: v for k, v in _PRE.items() if k != _LAYOUTS[0]}),
        Change(_SCALES[0], 768**0.5, MECHANISM, "the table is scaled again", also=also(_SCALES, 768**0.5)),
        Change("architecture.decoder.input.start_id", "last", OBJECTIVE,
               "a text ends in its language, and the decoder starts with it"),
        Change("objective.masking", Masking(rate=0.35, mask=1.0, random=0.0, span=3.5, unit="word"), OBJECTIVE,
               "longer spans, of whole words"),
        Change("tokenizer", Tokenizer(kind="unigram"), TOKENIZER, "SentencePiece for 100 languages, and their codes",
               also=dict.fromkeys(_VOCABS, 250_027)),
        Change("recipe", Recipe(length=1024, steps=500_000, schedule="linear"), TRAINING, "25 languages"),
    ],
    weaknesses=("parameter-bloat",),
    sizes={
        "mbart-large-cc25": _size(1024, 12, 250_027, "facebook/mbart-large-cc25", 610e6, scaled=True),
    },
)  # fmt: skip

_HALVES = Sinusoidal(layout="halves")
_RELU = MLP(width=2048, activation="relu", dropout=0.1)
_REGULAR = dict.fromkeys(_DROPOUTS, 0.1) | dict.fromkeys(_FEEDFORWARDS, _RELU)
PEGASUS = TRANSFORMER.variant(
    "pegasus",
    cite="Zhang et al. 2019, arXiv:1912.08777",
    changes=[
        Change("objective", Objective(kind="gap_sentences", masking=Masking(rate=0.3, mask=1.0, random=0.0),
                                      label_smoothing=0.1), OBJECTIVE,
               "the sentences most like the rest are removed, and written, as a summary is", relieves="task-alignment"),
        Change(_POSITIONS[0], _HALVES, POSITIONS, "sines first, cosines after", also=also(_POSITIONS, _HALVES)),
        Change(_LAYOUTS[0], pre(NORM), MECHANISM, "norms in front and at the end of each stack",
               relieves="training-stability", also={k: v for k, v in _PRE.items() if k != _LAYOUTS[0]}),
        Change(_BIASES[0], ALL_PROJECTIONS, MECHANISM, "every projection has a bias",
               also=also(_BIASES, ALL_PROJECTIONS)),
        Change("architecture.heads.seq2seq_lm", _HEAD, MECHANISM, "a constant is added to the scores, and is zero"),
        Change("tokenizer", Tokenizer(kind="unigram"), TOKENIZER, "96,000 pieces for news and web",
               also=dict.fromkeys(_VOCABS, 96_103)),
        Change("architecture.decoder.input.pad_learns", False, TRAINING, "released code: padding, which also starts"
               " each text, learns only as an output"),
        Change("recipe", Recipe(batch=8192, length=1024, steps=500_000, schedule="inverse_sqrt"), TRAINING,
               "C4 and HugeNews", relieves="under-training", also={"architecture.init": Init(), **_REGULAR}),
    ],
    weaknesses=("quadratic-attention",),
    sizes={
        "pegasus-base": _size(768, 12, 96_103, None, 223e6, length=512, scaled=True,
                              note="never released; its 223 million are with the 32,000 pieces of the ablations"),
        "pegasus-large": _size(1024, 16, 96_103, "google/pegasus-large", 568e6, scaled=True),
    },
)  # fmt: skip
MODELS = (BART, MBART, PEGASUS)
