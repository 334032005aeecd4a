"""The tiny oracle models of ViT."""

from __future__ import annotations

from tests.parity.case import Tiny

VIT = {
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 53,
    "image_size": 20,
    "patch_size": 5,
    "num_channels": 2,
    "layer_norm_eps": 1e-6,
}

TINY = (
    Tiny(
        name="vit",
        system="vit",
        oracle="ViT",
        heads=(None, "image_classification"),
        config=VIT,
        pixels=(2, 20, 20),
        vectors=17,
    ),
    Tiny(
        name="vit-unbiased",
        system="vit",
        oracle="ViT",
        heads=("image_classification",),
        config={**VIT, "qkv_bias": False, "pooler_act": "gelu"},
        pixels=(2, 20, 20),
        vectors=17,
    ),
)
