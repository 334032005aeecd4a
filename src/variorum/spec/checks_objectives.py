"""The tests behind the rules of objectives; see :mod:`variorum.spec.checks`."""

from __future__ import annotations

from variorum.spec.checks import Found
from variorum.spec.model import Model


def shares(model: Model) -> Found:
    """Shares of tokens, of texts and of another network's size that are none."""
    objective, at = model.objective, "objective"
    masking, generator = objective.masking, objective.generator
    if not 0 <= objective.permuted <= 1:
        yield f"{at}.permuted", f"{objective.permuted} of the texts"
    if masking is not None:
        if not 0 < masking.rate <= 1:
            yield f"{at}.masking.rate", f"{masking.rate} of the tokens"
        if masking.mask < 0 or masking.random < 0 or masking.mask + masking.random > 1:
            yield f"{at}.masking", f"{masking.mask} masked and {masking.random} random of those chosen"
        if masking.span is not None and masking.span < 1:
            yield f"{at}.masking.span", f"runs of {masking.span} tokens"
    if generator is not None:
        for name in ("width", "depth"):
            if not 0 < getattr(generator, name) <= 1:
                yield f"{at}.generator.{name}", f"{getattr(generator, name)} of the model"


def temperatures(model: Model) -> Found:
    """Temperatures that are not above 0."""
    for name in ("teacher", "contrast"):
        held = getattr(model.objective, name)
        if held is not None and not held.temperature > 0:
            yield f"objective.{name}.temperature", f"a temperature of {held.temperature}"


def texts(model: Model) -> Found:
    """Models that read no text."""
    arch = model.architecture
    if arch.stacks and arch.source.reads != "input_ids":
        yield f"architecture.{next(iter(arch.stacks))}.input", f"{model.name} reads {arch.source.reads}"


def prefixes(model: Model) -> Found:
    """Models that cannot read a prefix from both sides and write on."""
    arch = model.architecture
    if arch.decoder is None:
        yield "", f"{model.name} is an encoder"
    elif arch.encoder is None:
        if arch.decoder.memory:
            yield "architecture.decoder.memory", f"{model.name} remembers what came before the text"
        if any(arch.decoder.layer(index).attention.window for index in range(arch.decoder.depth)):
            yield "architecture.decoder", f"{model.name} has layers with a window, which only looks back"
