"""How Longformer is published: RoBERTa's names, a second query, key and value, and a window for each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from variorum.errors import DamagedFile
from variorum.family.longformer import LONGFORMER
from variorum.family.names.bert import ROBERTA_NAMES, E, L, classes
from variorum.spec.architecture import At
from variorum.spec.dialect import Key, same
from variorum.spec.model import Model

H = "architecture.heads"
WINDOW = f"{E}.block.attention.window"


def _read(config: Mapping[str, Any], model: Model) -> dict[str, object]:
    """One window is the usual one; layers with another are rules."""
    depth = model.architecture.main.depth
    given = config.get("attention_window", 512)
    windows = [given] * depth if isinstance(given, int) else list(given)
    if len(windows) != depth or any(not isinstance(one, int) or one < 2 or one % 2 for one in windows):
        raise DamagedFile(f"attention_window is {given!r}, not an even number for each of {depth} layers")
    usual = Counter(windows).most_common(1)[0][0]
    others = {one: [i for i, window in enumerate(windows) if window == one] for one in windows if one != usual}
    pattern = tuple(
        At(layers=",".join(map(str, layers)), set={"attention.window": window}) for window, layers in others.items()
    )
    return {**ROBERTA_NAMES.read(config, model), WINDOW: usual, f"{E}.pattern": pattern}


def _write(model: Model) -> dict[str, object]:
    stack = model.architecture.main
    return {"attention_window": [stack.layer(index).attention.window for index in range(stack.depth)]}


LONGFORMER_NAMES = ROBERTA_NAMES.but(
    model_type="longformer",
    base=LONGFORMER,
    prefix="longformer.",
    keys=(
        *ROBERTA_NAMES.keys,
        Key("sep_token_id", tuple(f"{H}.{head}.global_tokens.separator" for head in ("question_answering",
                                                                                     "multiple_choice"))),
    ),
    rules=(
        *ROBERTA_NAMES.rules,
        *(same(f"encoder.layer.{{i}}.attention.self.{name}_global", f"{L}.attention.{name}_global")
          for name in ("query", "key", "value")),
    ),
    classes=classes("Longformer"),
    read=_read,
    write=_write,
)  # fmt: skip
DIALECTS = (LONGFORMER_NAMES,)
