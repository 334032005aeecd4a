"""Every named tensor of one forward pass, with its axes and what it costs to make, from the spec alone.

Names are those of the built model's modules, in the order in which they finish; what happens inside a module (attention
maps, activated feed-forward) is listed too, and marked. ``size`` sums these rows; the ``shapes`` command prints them.
Nothing here needs a built model, and nothing here knows a model by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from variorum.spec.architecture import Architecture, Stack
from variorum.spec.heads import (
    AdaptiveSoftmax,
    EmbeddingHead,
    EnhancedMaskDecoder,
    Head,
    SequenceHead,
    SpanHead,
    TokenHead,
    TwoWayHead,
    VocabularyHead,
)
from variorum.spec.inputs import TokenInput
from variorum.spec.inventory import wants_pooler
from variorum.spec.named import ONE, Axis, Named, Rows, Scene, keys_seen, linear, norm_rows
from variorum.spec.recurrent import Recurrent
from variorum.spec.shapes_stack import layer_rows, stack_rows, token_rows


def forward(
    arch: Architecture, *, heads: Sequence[str] = (), batch: int = 1, length: int, target: int | None = None,
    context: int | None = None,
) -> list[Named]:  # fmt: skip
    """Every tensor of one forward pass without padding, cache or segment ids.

    Args:
        arch: what runs.
        heads: the heads that it carries.
        batch: sequences.
        length: tokens of each (of the source, where there are an encoder and a decoder).
        target: tokens of the decoder beside an encoder; ``length`` if absent.
        context: keys that each query may reach; the tokens themselves if absent. With ``length`` 1 this is one step of
            decoding.
    """
    width, b = Axis("D", arch.width), Axis("B", batch)
    rows: list[Named] = []
    scene, source = Scene(b, b, b, width), None
    if arch.encoder is not None:
        tokens = Axis("S" if arch.decoder is not None else "T", length)
        scene = _remembering(Scene(b, tokens, Axis(tokens.letters, context or length), width), arch.encoder)
        rows += stack_rows("encoder", arch.encoder, scene)
        source = scene.keys
    if arch.decoder is not None:
        tokens = Axis("T", length if source is None or target is None else target)
        scene = _remembering(Scene(b, tokens, Axis("T", context or tokens.size), width, source), arch.decoder)
        rows += stack_rows("decoder", arch.decoder, scene)
    if arch.recurrent is not None:
        tokens = Axis("T", length)
        scene = Scene(b, tokens, tokens, width)
        rows += _recurrent("recurrent", arch.recurrent, scene)
    if arch.pooler is not None and wants_pooler(arch, heads):
        rows += [linear("pooler.dense", (b,), width, width), Named("pooler", (b, width), written=False)]
    for name in heads:
        rows += _head(f"heads.{name}", arch.heads[name], arch, scene)
    return rows


def _recurrent(at: str, recurrent: Recurrent, scene: Scene) -> Rows:
    half = Axis("D/2", scene.width.size // 2)
    cells = half if recurrent.cells is None else Axis("C", recurrent.cells)
    gates = Axis(f"4·{cells.letters}", 4 * cells.size)
    yield from token_rows(f"{at}.input", recurrent.input, scene._replace(width=half))
    for index in range(recurrent.depth):
        for side in ("from_left", "from_right"):
            here = f"{at}.layers.{index}.{side}"
            yield linear(f"{here}.gates", scene.lead, half, gates)
            yield linear(f"{here}.carried", scene.lead, half, gates, module=False)
            if recurrent.cells is not None:
                yield linear(f"{here}.projected", scene.lead, cells, half, module=False)
            yield Named(here, (*scene.lead, half))
        yield Named(f"{at}.layers.{index}", (*scene.lead, scene.width))
    yield Named(f"{at}.mix", (*scene.lead, scene.width))
    yield Named(at, (*scene.lead, scene.width), written=False)


def _remembering(scene: Scene, stack: Stack) -> Scene:
    """The scene of a stack that makes keys and values of remembered states anew, the zeros of the first among them."""
    before = scene.keys.size - scene.tokens.size
    kept = stack.memory if stack.first_memory == "zeros" else min(before, stack.memory)
    if not kept:
        return scene
    read = Axis("M+T", kept + scene.tokens.size)
    return scene._replace(keys=read, read=read)


def _spans(at: str, head: SpanHead, scene: Scene) -> Rows:
    """Every start, every end after the best of them, and whether there is an answer."""
    width, pair = scene.width, Axis("2·D", 2 * scene.width.size)
    each = (scene.batch, Axis("starts", min(head.starts, scene.tokens.size)), scene.tokens)
    yield linear(f"{at}.start", scene.lead, width, ONE)
    yield linear(f"{at}.end.dense", each, pair, width)
    yield from norm_rows(f"{at}.end.norm", head.norm, (*each, width))
    yield linear(f"{at}.end.project", each, width, ONE)
    mean = 2 * math.prod(axis.size for axis in (*scene.lead, width))
    yield Named(f"{at}.expected", (scene.batch, width), mean, "2·T·D", module=False)
    yield linear(f"{at}.no_answer.dense", (scene.batch,), pair, width)
    yield linear(f"{at}.no_answer.project", (scene.batch,), width, ONE)
    yield Named(at, scene.lead, written=False)


def _again(at: str, head: EnhancedMaskDecoder, stack: Stack, scene: Scene) -> Rows:
    """The position vectors, and the last layer as often as it runs once more."""
    yield Named(f"{at}.positions", (ONE, scene.tokens, scene.width))
    last = stack.depth - 1
    for _ in range(head.steps):
        yield from layer_rows(f"encoder.layers.{last}", stack.layer(last), scene, None, stack.mask)
    yield from norm_rows("encoder.final_norm", stack.final_norm, (*scene.lead, scene.width))


def _adaptive(at: str, words: TokenInput, scene: Scene) -> Rows:
    """Every cluster's words scored, and the clusters; they are made one after another, and put together at last."""
    assert words.clusters is not None
    tables = words.clusters.tables(words.vocab, words.rank or scene.width.size)
    for index, (rows, inner) in enumerate(tables):
        axis = Axis(f"R/{words.clusters.divide}^{index}", inner)
        yield linear(f"{at}.inner.{index}", scene.lead, scene.width, axis, module=False)
        yield linear(f"{at}.tables.{index}", scene.lead, axis, Axis(f"V_{index}", rows))
        if index == 0:
            yield linear(f"{at}.clusters", scene.lead, axis, Axis("clusters", len(tables) - 1))
    yield Named(at, (*scene.lead, Axis("V", words.vocab)))


def _head(at: str, head: Head, arch: Architecture, scene: Scene) -> Rows:
    if isinstance(head, AdaptiveSoftmax):
        yield from _adaptive(at, arch.main.tokens, scene)
        return
    if isinstance(head, SpanHead):
        yield from _spans(at, head, scene)
        return
    if isinstance(head, EmbeddingHead):
        yield Named(at, (scene.batch, scene.width))
        return
    if isinstance(head, TwoWayHead):
        ways = (*scene.lead, Axis("2", 2))
        yield linear(f"{at}.project", ways, Axis("D/2", scene.width.size // 2), Axis("V", arch.vocab))
        yield Named(at, (*ways, Axis("V", arch.vocab)), written=False)
        return
    lead: tuple[Axis, ...] = (scene.batch,) if isinstance(head, SequenceHead) else scene.lead
    width = scene.width
    if isinstance(head, EnhancedMaskDecoder):
        yield from _again(at, head, arch.main, scene)
    if isinstance(head, TokenHead) and head.context is not None:
        yield Named(f"{at}.context", (*scene.lead, width))
    if head.transform is not None:
        out = width if head.transform.width is None else Axis("D_h", head.transform.width)
        yield linear(f"{at}.transform.dense", lead, width, out)
        yield from norm_rows(f"{at}.transform.norm", head.transform.norm, (*lead, out))
        yield Named(f"{at}.transform", (*lead, out), written=head.transform.norm is None)
        width = out
    if isinstance(head, VocabularyHead):
        scores = Axis("V", arch.vocab)
    else:
        assert isinstance(head, SequenceHead | TokenHead)
        scores = Axis("labels", head.labels)
    yield linear(f"{at}.project", lead, width, scores)
    yield Named(at, (*lead, scores), written=isinstance(head, VocabularyHead) and head.softcap is not None)


__all__ = ["Axis", "Named", "forward", "keys_seen"]
