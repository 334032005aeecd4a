"""Replaced token detection: a small masked model proposes words, and the model says which tokens are not the original
(Clark et al. 2020). A proposal that is the original *is* original; no gradient goes through the choice of words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from variorum.objectives.base import Corrupted, LossSum, Objective, Term, core, joined
from variorum.objectives.masked import MaskedLM
from variorum.objectives.streams import unpadded
from variorum.spec import recipe
from variorum.spec.architecture import Architecture
from variorum.spec.heads import Transform, VocabularyHead
from variorum.spec.norms import LayerNorm

if TYPE_CHECKING:
    import torch

    from variorum.objectives.base import Batch
    from variorum.objectives.symbols import Symbols
    from variorum.spec.model import Model as Spec

TABLE, JUDGED, REPLACED = "encoder.input.table", "judged", "replaced"
GENERATOR = "generator"


class ReplacedToken(Objective):
    """Rows as for :class:`~variorum.objectives.masked.MaskedLM`, which the generator is trained by."""

    name = "replaced_token"
    requires = ("replaced_token",)
    terms = (JUDGED,)

    def __init__(self, spec: Spec, masking: recipe.Masking, symbols: Symbols, *, seed: int = 0) -> None:
        self.settings = spec.objective.generator or recipe.Generator()
        self.spec, self.masked, self.seed = generator_spec(spec, self.settings), MaskedLM(masking, symbols), seed
        self._generator: Any = None

    def networks(self, model: torch.nn.Module) -> Mapping[str, torch.nn.Module]:
        """The generator, which shares its embeddings with ``model`` as the spec says."""
        if self._generator is None:
            from torch import nn

            from variorum.builder import build

            owner = core(model)
            made = build(self.spec, head="masked_lm", seed=self.seed)
            own = owner.get_parameter(f"{TABLE}.weight")
            made = made.to(device=own.device, dtype=own.dtype)
            if self.settings.embeddings == "shared":
                share(made, owner)
            if self.settings.embeddings == "disentangled":
                made.get_parameter(f"{TABLE}.weight").data.copy_(own.data)
                made.register_parameter("difference", nn.Parameter(own.new_zeros(own.shape)))
                own.requires_grad_(False)
            self._generator = made
        return {GENERATOR: self._generator}

    def settle(self, model: torch.nn.Module) -> None:
        """Write the model's table where it is the generator's plus a difference."""
        import torch

        if self.settings.embeddings == "disentangled":
            table = core(model).get_parameter(f"{TABLE}.weight")
            generator = self.networks(model)[GENERATOR]
            with torch.no_grad():
                table.copy_(generator.get_parameter(f"{TABLE}.weight") + generator.get_parameter("difference"))

    def corrupt(self, batch: Batch, rng: torch.Generator) -> Corrupted:
        """Hide tokens for the generator, and draw the number by which each hidden one is chosen."""
        import torch

        made = self.masked.corrupt(batch, rng)
        ids = batch["input_ids"]
        real = made.inputs.get("attention_mask", torch.ones_like(ids))
        beside = {"original": ids, "draws": torch.rand(ids.shape, generator=rng), "real": real}
        return dataclasses.replace(made, beside=beside, counts={JUDGED: int(real.sum())})

    def loss(self, model: torch.nn.Module, example: Corrupted) -> LossSum:
        """The generator's cross-entropy at the hidden tokens, plus the model's binary one at every real token.

        Beside both, the share of tokens that are replaced: the better the generator, the fewer and the harder to tell.
        """
        import torch.nn.functional as F

        generator = self.networks(model)[GENERATOR]
        generator.train(model.training)
        marks = (example.targets, example.beside["original"], example.beside["draws"], example.beside["real"])
        inputs, (targets, original, draws, real) = unpadded(model, example.inputs, *marks)
        chosen = targets >= 0
        scores = generator(**inputs, logits_to_keep=chosen).logits
        proposed = sampled(scores.detach(), draws[chosen])
        read, labels = judged(original, chosen, proposed)
        verdicts = model(**self._read(model, inputs, read)).logits
        errors = F.binary_cross_entropy_with_logits(verdicts, labels.to(verdicts.dtype), reduction="none")
        main = F.cross_entropy(scores, targets[chosen], reduction="sum")
        found = joined(example, main, Term(JUDGED, (errors * real).sum(), self.settings.weight))
        replaced = ((labels * real).sum(), example.counts[JUDGED])
        return dataclasses.replace(found, parts={**found.parts, REPLACED: replaced})

    def _read(self, model: torch.nn.Module, inputs: dict[str, Any], ids: torch.Tensor) -> dict[str, Any]:
        """What the model reads: the ids, or their vectors where its table is the generator's plus a difference."""
        import torch.nn.functional as F

        if self.settings.embeddings != "disentangled":
            return {**inputs, "input_ids": ids}
        generator = self.networks(model)[GENERATOR]
        fixed = F.embedding(ids, generator.get_parameter(f"{TABLE}.weight").detach())
        vectors = fixed + F.embedding(ids, generator.get_parameter("difference"))
        others = {name: value for name, value in inputs.items() if name != "input_ids"}
        return {**others, "inputs_embeds": vectors}


def sampled(scores: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """One id for each row of scores [N, V], by its probability; draws [N] are uniform in [0, 1)."""
    import torch

    edges = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).cumsum(-1)
    at = draws.to(edges.dtype)[:, None] * edges[:, -1:]
    return torch.searchsorted(edges, at, right=True).squeeze(-1).clamp(max=scores.shape[-1] - 1)


def judged(original: torch.Tensor, chosen: torch.Tensor, proposed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The text with proposals [N] at the chosen places [B, T], and 1 where it is not the original."""
    read = original.masked_scatter(chosen, proposed)
    return read, (read != original).long()


def share(generator: torch.nn.Module, model: torch.nn.Module) -> None:
    """Make every input parameter of the same name and shape one: table, positions, segments, norm (released code)."""
    own = dict(model.get_submodule("encoder.input").named_parameters())
    source = generator.get_submodule("encoder.input")
    for name, parameter in list(source.named_parameters()):
        if name in own and own[name].shape == parameter.shape and not name.startswith("project"):
            part, _, leaf = name.rpartition(".")
            source.get_submodule(part).register_parameter(leaf, own[name])
    generator.bind()  # type: ignore[operator]


def generator_spec(spec: Spec, settings: recipe.Generator) -> Spec:
    """The generator of a model: its encoder at a share of the size, reading a table of the same shape."""
    arch, at = spec.architecture, "architecture.encoder"
    stack = arch.encoder
    assert stack is not None
    attention, share_ = stack.block.attention, settings.width
    heads = max(1, round(attention.heads * share_))
    width = _width(arch, heads, share_)
    rank = getattr(stack.input, "rank", None) or (None if width == arch.width else arch.width)
    values: dict[str, object] = {
        "name": f"{spec.name}-generator",
        "architecture.width": width,
        f"{at}.depth": max(1, round(stack.depth * settings.depth)),
        f"{at}.input.rank": rank,
        f"{at}.block.attention.heads": heads,
    }
    if hasattr(attention, "kv_heads"):
        grouped = max(1, round(attention.kv_heads * share_))
        values[f"{at}.block.attention.kv_heads"] = max(n for n in range(1, grouped + 1) if heads % n == 0)
    if share_ != 1:
        values[f"{at}.block.feedforward.width"] = max(1, round(stack.block.feedforward.width * share_))
    head = arch.heads.get("masked_lm")
    if not isinstance(head, VocabularyHead):
        norm = stack.block.layout.norm or LayerNorm(eps=1e-12)
        head = VocabularyHead(tie=TABLE, bias=True, transform=Transform(activation="gelu", norm=norm))
    if head.tie is not None and (rank or width) != width and head.transform is None:
        head = dataclasses.replace(head, transform=Transform(activation="gelu"))
    if head.transform is not None:
        transform = dataclasses.replace(head.transform, width=rank)
        head = dataclasses.replace(head, transform=transform)
    values["architecture.heads"] = {"masked_lm": head}
    return spec.set(values | {"architecture.pooler": None, "objective": dataclasses.replace(
        spec.objective, kind="masked_lm", pair=None, generator=None)})  # fmt: skip


def _width(arch: Architecture, heads: int, part: float) -> int:
    """The generator's width: a share of the model's, a multiple of its heads."""
    return arch.width if part == 1 else max(heads, round(arch.width * part / heads) * heads)
