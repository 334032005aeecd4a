"""ViT: BERT's encoder on the patches of an image."""

from __future__ import annotations

from variorum.family.bert import BERT, E, shape
from variorum.spec.architecture import pre
from variorum.spec.heads import SequenceHead
from variorum.spec.inputs import PatchInput
from variorum.spec.model import MECHANISM, OBJECTIVE, TOKENIZER, TRAINING, Change, Size
from variorum.spec.norms import LayerNorm
from variorum.spec.positions import Learned
from variorum.spec.recipe import Objective, Recipe

NORM = LayerNorm(eps=1e-12)


def _shape(width: int, depth: int, heads: int) -> dict[str, object]:
    values = shape(width, depth, heads, vocab=0)
    del values[f"{E}.input.vocab"]
    return values


VIT = BERT.variant(
    "vit",
    cite="Dosovitskiy et al. 2020, arXiv:2010.11929",
    changes=[
        Change(f"{E}.input", PatchInput(positions=Learned(rows=197)), TOKENIZER,
               "a patch of 16 × 16 pixels is a word; [CLS] and learned positions stay",
               also={"tokenizer.kind": "patches", "tokenizer.cased": True}),
        Change(f"{E}.block.layout", pre(NORM), MECHANISM, "trains at depth without a long warm-up",
               relieves="training-stability", also={f"{E}.final_norm": NORM}),
        Change("architecture.heads", {"image_classification": SequenceHead(take="first", dropout=0.0)}, OBJECTIVE,
               "supervised labels instead of hidden words",
               relieves="task-alignment", also={"objective": Objective(kind="image_classification")}),
        Change(f"{E}.block.dropout", 0.0, TRAINING, "as released", also={f"{E}.block.attention.dropout": 0.0}),
        Change("recipe", Recipe(batch=4096, learning_rate=1e-3, warmup=10_000, weight_decay=0.1, schedule="linear"),
               TRAINING, "ImageNet-21k"),
    ],
    weaknesses=("quadratic-attention", "data-efficiency"),
    sizes={
        "vit-base-patch16-224": Size(_shape(768, 12, 12), "google/vit-base-patch16-224", 86e6),
        "vit-large-patch16-224": Size(_shape(1024, 24, 16), "google/vit-large-patch16-224", 307e6),
    },
)  # fmt: skip
MODELS = (VIT,)
