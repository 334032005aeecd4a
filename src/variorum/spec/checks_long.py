"""The tests behind the rules for long texts and large vocabularies: global tokens, clusters of words.

As in :mod:`variorum.spec.checks`, each takes a model and yields where it breaks its rule, and what is wrong there.
"""

from __future__ import annotations

from itertools import pairwise

from variorum.spec.attention import GlobalLocalAttention
from variorum.spec.checks import Found
from variorum.spec.heads import AdaptiveSoftmax, BesideSeparator, VocabularyHead
from variorum.spec.inputs import TokenInput
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


def memory_alone(model: Model) -> Found:
    """A memory of one of two stacks, or zeros to remember without room for them."""
    for name, stack in model.architecture.stacks.items():
        if stack.first_memory == "zeros" and not stack.memory:
            yield f"architecture.{name}.first_memory", "zeros in a memory of none"
    if len(model.architecture.stacks) > 1:
        for name, stack in model.architecture.stacks.items():
            if stack.memory:
                yield f"architecture.{name}.memory", f"a memory of the {name} beside another stack"


def clusters(model: Model) -> Found:
    """Clusters without words or vectors, and tables that take a clustered one for a whole one."""
    arch = model.architecture
    for name, stack in arch.stacks.items():
        words, at = stack.input, f"architecture.{name}.input.clusters"
        if not isinstance(words, TokenInput) or words.clusters is None:
            continue
        cut = words.clusters
        ends = (0, *cut.cutoffs, words.vocab)
        if not cut.cutoffs or any(begin >= end for begin, end in pairwise(ends)):
            yield f"{at}.cutoffs", f"clusters that end at {', '.join(map(str, ends[1:]))}"
        if cut.divide < 1 or (words.rank or arch.width) < cut.divide ** len(cut.cutoffs):
            times = f"divided by {cut.divide} {len(cut.cutoffs)} times"
            yield f"{at}.divide", f"a rank of {words.rank or arch.width} {times}"
        if words.tie is not None:
            yield at, "clusters of another stack's table"
        borrowers = [f"heads.{key}" for key, head in arch.heads.items()
                     if isinstance(head, VocabularyHead) and head.tie == f"{name}.input.table"]  # fmt: skip
        borrowers += [f"{key}.input" for key, other in arch.stacks.items()
                      if getattr(other.input, "tie", None) == f"{name}.input.table"]  # fmt: skip
        for borrower in borrowers:
            yield f"architecture.{borrower}.tie", "a clustered table taken for a whole one"


def adaptive(model: Model) -> Found:
    """Adaptive softmaxes over words that are in no clusters, or tied to what is not there."""
    arch = model.architecture
    for name, head in arch.heads.items():
        if not isinstance(head, AdaptiveSoftmax) or not arch.stacks:
            continue
        at, words = f"architecture.heads.{name}", arch.main.input
        cut = words.clusters if isinstance(words, TokenInput) else None
        main = "decoder" if arch.decoder is not None else "encoder"
        if cut is None:
            yield at, "an adaptive softmax over words in no clusters"
            continue
        if head.tie not in (None, f"{main}.input.table"):
            yield f"{at}.tie", f"{head.tie} is not the table of its words"
        odd = [i for i in head.tied_projections if not 0 <= i <= len(cut.cutoffs) or head.tie is None]
        if odd or len(set(head.tied_projections)) < len(head.tied_projections):
            yield f"{at}.tied_projections", f"projections {head.tied_projections} of {len(cut.cutoffs) + 1} clusters"
        if model.objective.label_smoothing:
            yield "objective.label_smoothing", "smoothed labels, whose loss needs every word"


__all__ = ["adaptive", "clusters", "global_attention", "global_tokens", "memory_alone"]
