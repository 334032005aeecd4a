"""The tests behind the rules for long texts and large vocabularies: global tokens, clusters of words.

As in :mod:`variorum.spec.checks`, each takes a model and yields where it breaks its rule, and what is wrong there.
"""

from __future__ import annotations

from variorum.spec.attention import GlobalLocalAttention
from variorum.spec.checks import Found
from variorum.spec.heads import BesideSeparator
from variorum.spec.model import Model


def global_attention(model: Model) -> Found:
    """Global tokens where some may not be seen, or where they are not of the same text."""
    for name, stack in model.architecture.stacks.items():
        at = f"architecture.{name}.block"
        if isinstance(stack.block.cross, GlobalLocalAttention):
            yield f"{at}.cross", "global tokens in cross-attention"
        if not stack.has_globals:
            continue
        if stack.mask == "causal":
            yield f"{at}.attention", "global tokens in a causal stack"
        if stack.memory:
            yield f"architecture.{name}.memory", "global tokens beside a memory"


def global_tokens(model: Model) -> Found:
    """Heads that choose global tokens where no layer has such, or by an id that does not exist."""
    arch = model.architecture
    for name, head in arch.heads.items():
        wanted, at = getattr(head, "global_tokens", None), f"architecture.heads.{name}.global_tokens"
        if wanted is None:
            continue
        if arch.encoder is None or not arch.encoder.has_globals:
            yield at, "global tokens without a layer that knows them"
        elif isinstance(wanted, BesideSeparator):
            vocab = getattr(arch.encoder.input, "vocab", 0)
            if not 0 <= wanted.separator < vocab:
                yield f"{at}.separator", f"id {wanted.separator} in a vocabulary of {vocab:,}"


__all__ = ["global_attention", "global_tokens"]
