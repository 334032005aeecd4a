"""Parts that no class of the oracle has, put on its tiny models, so that their fields are watched too."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import variorum
from tests.mutation.observers import Subject, looks
from tests.parity.case import Case
from tests.parity.probes import KINDS
from variorum.checkpoint.config import read_config
from variorum.family.bilm import BILM
from variorum.spec.heads import EmbeddingHead
from variorum.spec.positions import NtkScaling, Sinusoidal
from variorum.spec.recipe import Contrast

HEADS, TWO_WAYS = "architecture.heads", "bidirectional_lm"
#: A DeBERTa-v3 as its authors publish it holds these beside what the library's class holds.
POSITIONS = {"deberta.embeddings.position_embeddings.weight": (40, 48)}
JUDGE = {
    "mask_predictions.LayerNorm.weight": (48,), "mask_predictions.LayerNorm.bias": (48,),
    "mask_predictions.dense.weight": (48, 48), "mask_predictions.dense.bias": (48,),
    "mask_predictions.classifier.weight": (1, 48), "mask_predictions.classifier.bias": (1,),
}  # fmt: skip


def beside(case: Case, published: Subject, directory: Path) -> Iterator[tuple[Subject, tuple[str, ...]]]:
    """Further subjects made of a published one, each with the paths under which it is mutated."""
    if case.name == "gpt2/causal_lm":
        yield _with_sinusoids(published, directory / "sinusoids"), ("architecture.decoder.input.positions.",)
        yield _from_both_ends(published, directory / "bilm"), ("architecture.recurrent", f"{HEADS}.bidirectional_lm")
    if case.name == "llama/causal_lm":
        place = "architecture.decoder.positions.scaling"
        spec = published.spec.set({place: NtkScaling(factor=4.0)})
        yield dataclasses.replace(published, name=f"{case.name} under NTK", spec=spec), (place,)
    if case.name == "bert/hidden":
        yield _with_vectors(case, published), (f"{HEADS}.embedding", "objective.contrast.")
    if case.name == "deberta-v3/masked_lm":
        whole = _released(published, directory / "released")
        yield dataclasses.replace(whole, name=f"{case.name} enhanced"), (f"{HEADS}.masked_lm",)
        judge = dataclasses.replace(whole, name="deberta-v3/replaced_token", heads=("replaced_token",))
        yield judge, (f"{HEADS}.replaced_token",)


def _with_sinusoids(plain: Subject, directory: Path) -> Subject:
    """A model whose learned positions are replaced by sinusoids."""
    stack = next(iter(plain.spec.architecture.stacks))
    directory.mkdir()
    tensors = load_file(plain.directory / "model.safetensors")
    save_file({name: value for name, value in tensors.items() if "wpe" not in name}, directory / "model.safetensors")
    spec = plain.spec.set({f"architecture.{stack}.input.positions": Sinusoidal()})
    return dataclasses.replace(plain, name=f"{plain.name} with sinusoids", directory=directory, spec=spec)


def _from_both_ends(plain: Subject, directory: Path) -> Subject:
    """Two recurrent stacks on the same texts, in our own layout."""
    sizes = {"width": 12, "recurrent.depth": 2, "recurrent.cells": 10, "recurrent.input.vocab": plain.material.vocab}
    made = variorum.build(BILM.set({f"architecture.{path}": value for path, value in sizes.items()}), head=TWO_WAYS)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    made.save(directory)
    spec, dialect = read_config(json.loads((directory / "config.json").read_text()))
    probes = tuple(probe for probe in plain.probes if probe.carry is None and probe.kind != "holed")
    return dataclasses.replace(
        plain, name="bilm", directory=directory, spec=spec, dialect=dialect, heads=(TWO_WAYS,), probes=probes
    )


def _with_vectors(case: Case, plain: Subject) -> Subject:
    """A model that gives each text one vector."""
    material = dataclasses.replace(plain.material, pooled=True)
    probes = tuple(looks(material, [KINDS[kind](material) for kind in case.kinds]))
    spec = plain.spec.set({f"{HEADS}.embedding": EmbeddingHead(take="mean"), "objective.contrast": Contrast()})
    return dataclasses.replace(
        plain, name="bert/embedding", spec=spec, heads=("embedding",), material=material, probes=probes
    )


def _released(plain: Subject, directory: Path) -> Subject:
    """The directory as the authors' code writes it, with both of its pretraining heads."""
    shutil.copytree(plain.directory, directory)
    config = json.loads((directory / "config.json").read_text())
    for key in ("architectures", "legacy"):
        config.pop(key, None)
    (directory / "config.json").write_text(json.dumps(config))
    held = load_file(directory / "model.safetensors")
    more = {name: _drawn(shape, seed) for seed, (name, shape) in enumerate((POSITIONS | JUDGE).items())}
    save_file(held | more, directory / "model.safetensors")
    spec, dialect = read_config(config)
    return dataclasses.replace(plain, directory=directory, spec=spec, dialect=dialect)


def _drawn(shape: tuple[int, ...], seed: int) -> Tensor:
    return 0.5 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


__all__ = ["beside"]
