"""The tiny checkpoints that the faults are tried on."""

from __future__ import annotations

from pathlib import Path

from variorum.builder import build
from variorum.checkpoint import manifest, save
from variorum.checkpoint.files import TensorFiles, write_directory
from variorum.family import find
from variorum.model import Model
from variorum.text import load_tokenizer

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{letter}" for letter in "abcdefghij"))
SIZES = {
    "architecture.width": 16,
    "architecture.encoder.depth": 1,
    "architecture.encoder.input.vocab": len(WORDS),
    "architecture.encoder.input.positions.rows": 12,
    "architecture.encoder.block.attention.heads": 2,
    "architecture.encoder.block.attention.kv_heads": 2,
    "architecture.encoder.block.attention.head_dim": 8,
    "architecture.encoder.block.feedforward.width": 24,
}


def tiny(place: Path, seed: int = 0) -> Model:
    """A BERT with its masked-LM head and a WordPiece vocabulary. ``place`` takes the vocabulary's file."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    model = build(find("bert").set(SIZES), head="masked_lm", seed=seed)
    model.tokenizer = load_tokenizer(place)
    return model


def own(place: Path, seed: int = 0) -> Path:
    """A save of ours, of one file and with a manifest."""
    save(tiny(place.parent / "vocabulary", seed), place)
    return place


def own_sharded(place: Path) -> Path:
    """The same in several shards."""
    whole = own(place.parent / f"{place.name}-whole")
    with TensorFiles(whole) as found:
        tensors = {name: found.get(name) for name in found.shapes}
        others = {p.name: p.read_bytes() for p in whole.iterdir() if p.suffix in (".json", ".txt")}
        del others[manifest.NAME]
        write_directory(place, tensors, others, max_shard_bytes=4000)
    return place


def published(place: Path, *, sharded: bool = False) -> Path:
    """As others publish it: no manifest."""
    (own_sharded if sharded else own)(place)
    (place / manifest.NAME).unlink()
    return place
