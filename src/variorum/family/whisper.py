"""Whisper: an encoder-decoder that reads sound."""

from __future__ import annotations

from variorum.family.transformer import ATTENTIONS, TRANSFORMER, also, both, shape
from variorum.spec.architecture import pre
from variorum.spec.heads import VocabularyHead
from variorum.spec.inputs import MelInput, TokenInput
from variorum.spec.model import MECHANISM, POSITIONS, TOKENIZER, TRAINING, Change, Size
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Learned, Sinusoidal
from variorum.spec.recipe import Objective, Recipe, Tokenizer

NORM = LayerNorm(eps=1e-5)
TABLE = "decoder.input.table"


def steps(width: int) -> Sinusoidal:
    """The encoder's positions: sines, then cosines, whose slowest wave is exactly 10,000 times the fastest."""
    return Sinusoidal(base=10_000.0 ** (width / (width - 2)), layout="halves")


def _size(width: int, depth: int, published: float, name: str, vocab: int = 51_865, mels: int = 80) -> Size:
    values = shape(width, depth, width // 64, 4 * width) | {
        "architecture.encoder.input.positions": steps(width),
        "architecture.encoder.input.mels": mels,
        "architecture.decoder.input.vocab": vocab,
    }
    return Size(values, f"openai/whisper-{name}", published)


_LAYOUTS, _NORMS = both("block.layout"), both("final_norm")
_ACTIVATIONS, _DROPOUTS = both("block.feedforward.activation"), both("block.dropout")
WHISPER = TRANSFORMER.variant(
    "whisper",
    cite="Radford et al. 2022, arXiv:2212.04356",
    changes=[
        Change("architecture.encoder.input", MelInput(positions=steps(512)), TOKENIZER,
               "log-mel frames of 10 ms, two convolutions, 20 ms a vector"),
        Change("architecture.decoder.input", TokenInput(vocab=51_865, positions=Learned(rows=448), pad_id=50_257,
                                                        start_id=50_258), POSITIONS,
               "learned positions for at most 448 tokens; sound and text share no table",
               also={"architecture.heads.seq2seq_lm": VocabularyHead(tie=TABLE),
                     "tokenizer": Tokenizer(kind="byte-bpe")}),
        Change(_LAYOUTS[0], pre(NORM), MECHANISM, "trains at depth without a long warm-up",
               relieves="training-stability", also=also(_LAYOUTS, pre(NORM)) | dict.fromkeys(_NORMS, NORM)),
        Change(f"{ATTENTIONS[0]}.bias", ("query", "value", "out"), MECHANISM, "a bias on keys moves no weight",
               also={f"{path}.bias": ("query", "value", "out") for path in ATTENTIONS[1:]}),
        Change(_ACTIVATIONS[0], "gelu", MECHANISM, "as in GPT-2", also=also(_ACTIVATIONS, "gelu")),
        Change(_DROPOUTS[0], 0.0, TRAINING, "680,000 hours of sound need none", relieves="data-efficiency",
               also=also(_DROPOUTS, 0.0)),
        Change("objective", Objective(kind="text_to_text"), TRAINING,
               "one sequence of tokens says language, task and text"),
        Change("recipe", Recipe(batch=256, length=1500, steps=1_048_576, learning_rate=1e-3, warmup=2048,
                                schedule="linear"), TRAINING, "large-scale weak supervision"),
    ],
    weaknesses=("quadratic-attention", "latency"),
    sizes={
        "whisper-tiny": _size(384, 4, 39e6, "tiny"),
        "whisper-base": _size(512, 6, 74e6, "base"),
        "whisper-small": _size(768, 12, 244e6, "small"),
        "whisper-medium": _size(1024, 24, 769e6, "medium"),
        "whisper-large": _size(1280, 32, 1550e6, "large"),
        "whisper-large-v3": _size(1280, 32, 1550e6, "large-v3", vocab=51_866, mels=128),
    },
)  # fmt: skip
MODELS = (WHISPER,)
