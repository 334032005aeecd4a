"""``variorum attention``: maps of a text in a model, as figures, pictures or data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from variorum.cli.loading import PLAIN, Loading
from variorum.cli.output import Column, chosen, emit, plain
from variorum.cli.reading import Option
from variorum.errors import UsageError

if TYPE_CHECKING:
    from variorum.inference.attention_maps import Maps, Ranked

Kind = Literal["encoder", "decoder", "cross"]
ENDINGS = (".svg", ".png", ".json")
STRONGEST = 3


def command(
    model: str,
    *,
    text: str,
    pair: str | None = None,
    target: str | None = None,
    maps: Kind | None = None,
    layer: int | None = None,
    head: int | None = None,
    source: Annotated[str | None, Option(name="--from")] = None,
    to: str | None = None,
    out: Path | None = None,
    loading: Loading = PLAIN,
) -> None:
    """Who attends to whom: what each head does, or the heads by how much of their attention goes from word to word.

    With --layer and --head, each token with the tokens that it attends to most. DeBERTa's three score terms
    (content-to-content c2c, content-to-position c2p, position-to-content p2c) stand apart in JSON, and beside the
    weights in the picture of one head.

    Args:
        model: A directory, a spec's name, or org/name in the cache.
        text: The text.
        pair: A second text, for encoders that read pairs.
        target: What an encoder-decoder has written; what it would write, if absent.
        maps: Which stack, where there are several.
        layer: One layer, counted from 0.
        head: One head, counted from 0.
        source: The word that attends. With --to, heads are ranked by the weight between the two.
        to: The word attended to.
        out: A picture (.svg with words, .png of the bare maps) or the data (.json).
    """
    if out is not None and out.suffix not in ENDINGS:
        raise UsageError("is neither .svg nor .png nor .json", where=str(out), remedy="give --out one of these endings")
    if (source is None) != (to is None):
        raise UsageError("a weight goes from one word to another", remedy="give both --from and --to")
    from variorum.cli.loading import load
    from variorum.inference.attention_maps import attention_maps, ranked

    found = attention_maps(load(model, loading), text, pair=pair, target=target)
    chosen_maps = _chosen(found, maps, layer, head)
    ranking = None if source is None or to is None else ranked(chosen_maps, source, to)
    if out is not None:
        _write(out, chosen_maps, ranking)
        first = chosen_maps[0]
        shape = {"layers": len(first.layers), "heads": len(first.heads), "tokens": len(first.keys.tokens)}
        emit({"file": str(out), "maps": [one.kind for one in chosen_maps], **shape})
    elif chosen() == "json":
        emit(_data(chosen_maps, ranking))
    else:
        _show(chosen_maps, ranking)


def _chosen(found: Sequence[Maps], kind: Kind | None, layer: int | None, head: int | None) -> list[Maps]:
    kinds = [one.kind for one in found]
    if kind is not None and kind not in kinds:
        raise UsageError(f"there are no {kind} maps in this model", remedy=f"there are {', '.join(kinds)} maps")
    if kind is None and layer is not None and len(kinds) > 1:
        raise UsageError("several stacks have layers", remedy=f"say which with --maps {'|'.join(kinds)}")
    return [one.only(layer, head) for one in found if kind is None or one.kind == kind]


def _data(maps: Sequence[Maps], ranking: list[Ranked] | None) -> dict[str, Any]:
    return {
        "maps": [
            {
                "kind": one.kind,
                "queries": one.queries,
                "keys": one.keys,
                "layers": one.layers,
                "heads": one.heads,
                "weights": one.weights,
                "terms": one.terms,
            }
            for one in maps
        ],
        "ranking": ranking,
    }


def _show(maps: Sequence[Maps], ranking: list[Ranked] | None) -> None:
    from variorum.inference.attention_maps import habits

    several = [Column("kind", "maps")] if len(maps) > 1 else []
    one = maps[0]
    if ranking is not None:
        emit(ranking, columns=[*several, Column("layer"), Column("head"), Column("weight", show=_share)])
    elif len(maps) == 1 and len(one.layers) == len(one.heads) == 1:
        emit(_strongest(one), columns=[Column("query"), Column("attends to")])
    else:
        columns = [Column(name, show=_share) for name in ("itself", "before", "first")]
        entropy = Column("entropy", "entropy (bits)", _share)
        rows = [row for some in maps for row in habits(some)]
        emit(rows, columns=[*several, Column("layer"), Column("head"), entropy, *columns])


def _share(value: object) -> str:
    return "" if value is None else f"{value:.3f}"


def _strongest(maps: Maps) -> list[dict[str, str]]:
    weights, keys = maps.weights[0, 0], maps.keys.labels
    best = weights.topk(min(STRONGEST, len(keys)))
    rows = zip(maps.queries.labels, best.values.tolist(), best.indices.tolist(), strict=True)
    return [
        {
            "query": query,
            "attends to": ", ".join(f"{keys[i]} {w:.3f}" for w, i in zip(w_row, i_row, strict=True) if w > 0),
        }
        for query, w_row, i_row in rows
    ]


def _write(out: Path, maps: Sequence[Maps], ranking: list[Ranked] | None) -> None:
    from variorum.inference import pictures

    if out.suffix == ".json":
        content = json.dumps(plain(_data(maps, ranking)), ensure_ascii=False).encode() + b"\n"
    elif len(maps) > 1:
        kinds = "|".join(one.kind for one in maps)
        raise UsageError("a picture shows one stack", where=str(out), remedy=f"say which with --maps {kinds}")
    else:
        content = pictures.svg(maps[0]).encode() if out.suffix == ".svg" else pictures.png(maps[0])
    partial = out.with_name(f".{out.name}.part")
    try:
        partial.write_bytes(content)
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
