"""MiniLM, E5 and BGE: BERT made small, and BERT made to give a text one vector that can be compared."""

from __future__ import annotations

from variorum.family.bert import BERT, H, shape
from variorum.spec.heads import EmbeddingHead
from variorum.spec.model import COMPRESSION, OBJECTIVE, TOKENIZER, TRAINING, Change, Size
from variorum.spec.recipe import Contrast, Masking, Objective, Recipe

_SMALL, _BASE, _LARGE = (shape(*one, vocab=30_522) for one in ((384, 12, 12), (768, 12, 12), (1024, 24, 16)))
_CONTRASTIVE = Change(
    "objective", Objective(kind="contrastive", contrast=Contrast()), OBJECTIVE,
    "texts that belong together are to lie together, away from the others of a batch",
    also={f"{H}.next_sentence": None},
)  # fmt: skip

MINILM = BERT.variant(
    "minilm",
    cite="Wang et al. 2020, arXiv:2002.10957",
    changes=[
        Change("architecture.width", 384, COMPRESSION, "half as wide, as deep", relieves="latency", also=_SMALL),
        Change("objective", Objective(kind="distillation", masking=Masking()), OBJECTIVE,
               "imitates the attention and the value relations of its teacher's last layer", relieves="signal-density"),
        Change("recipe", Recipe(batch=1024, length=512, steps=400_000, learning_rate=5e-4, warmup=4_000,
                                weight_decay=0.01, schedule="linear"), TRAINING, "BERT-base is the teacher"),
    ],
    sizes={"MiniLM-L12-H384-uncased": Size(_SMALL, "microsoft/MiniLM-L12-H384-uncased", 33e6)},
)  # fmt: skip

ALL_MINILM = MINILM.variant(
    "all-minilm",
    cite="Reimers & Gurevych 2019, arXiv:1908.10084; released 2021",
    changes=[
        Change(f"{H}.embedding", EmbeddingHead(take="mean"), OBJECTIVE, "the mean of all words stands for the text",
               relieves="task-alignment"),
        _CONTRASTIVE,
        Change("recipe", Recipe(batch=1024, length=128, steps=100_000, learning_rate=2e-5, warmup=500), TRAINING,
               "a billion pairs of sentences"),
    ],
    sizes={
        "all-MiniLM-L6-v2": Size(shape(384, 6, 12, vocab=30_522), "sentence-transformers/all-MiniLM-L6-v2", 22.7e6),
        "all-MiniLM-L12-v2": Size(_SMALL, "sentence-transformers/all-MiniLM-L12-v2", 33.4e6),
    },
)  # fmt: skip

E5 = BERT.variant(
    "e5",
    cite="Wang et al. 2022, arXiv:2212.03533",
    changes=[
        Change(f"{H}.embedding", EmbeddingHead(take="mean"), OBJECTIVE, "the mean of all words stands for the text",
               relieves="task-alignment"),
        _CONTRASTIVE,
        Change("tokenizer.query", "query: ", TOKENIZER, "a question and what answers it are told apart",
               also={"tokenizer.passage": "passage: "}),
        Change("recipe", Recipe(batch=32_768, length=128, steps=20_000, learning_rate=2e-4, warmup=1_000,
                                schedule="linear"), TRAINING, "pairs from the web, then labelled ones"),
    ],
    sizes={
        f"e5-{size}{version}": Size(values | {"recipe.learning_rate": rate}, f"intfloat/e5-{size}{version}", published)
        for size, values, rate, published in (
            ("small", _SMALL, 3e-4, 33e6), ("base", _BASE, 2e-4, 110e6), ("large", _LARGE, 1e-4, 335e6),
        )
        for version in ("", "-v2")
    },
)  # fmt: skip

BGE = BERT.variant(
    "bge",
    cite="Xiao et al. 2023, arXiv:2309.07597",
    changes=[
        Change(f"{H}.embedding", EmbeddingHead(take="first"), OBJECTIVE, "[CLS] is trained to hold the text",
               relieves="task-alignment"),
        _CONTRASTIVE,
        Change("tokenizer.query", "Represent this sentence for searching relevant passages: ", TOKENIZER,
               "an instruction before a question; passages go without"),
        Change("recipe", Recipe(batch=19_200, length=512), TRAINING, "pairs from the web, then hard negatives"),
    ],
    sizes={
        f"bge-{size}-en-v1.5": Size(values, f"BAAI/bge-{size}-en-v1.5", published)
        for size, values, published in (("small", _SMALL, 33.4e6), ("base", _BASE, 109e6), ("large", _LARGE, 335e6))
    },
)  # fmt: skip
MODELS = (MINILM, ALL_MINILM, E5, BGE)
