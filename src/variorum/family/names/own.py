"""The layout of models that nobody has published: the spec itself as config, and tensors by their own names.

A mix is written so that it can be read again, here; no other library knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from variorum.errors import DamagedFile, VariorumError
from variorum.spec.architecture import Architecture
from variorum.spec.dialect import Dialect, same
from variorum.spec.heads import HEAD_NAMES
from variorum.spec.model import COMPARED, Model
from variorum.spec.recipe import Objective, Tokenizer
from variorum.spec.values import fitted, told

TYPE, NONE = "variorum", "none"
DEEPEST = 1_000
BLANK = Model(
    name=TYPE, cite="", architecture=Architecture(width=1), tokenizer=Tokenizer(kind="bytes"),
    objective=Objective(kind="causal_lm"),
)  # fmt: skip


def _write(model: Model) -> dict[str, object]:
    return {"name": model.name, "cite": model.cite, "spec": {field: told(getattr(model, field)) for field in COMPARED}}


def _read(config: Mapping[str, Any], base: Model) -> dict[str, object]:
    """The spec that a config holds.

    Raises:
        DamagedFile: it is none, or breaks a rule.
    """
    from variorum.spec.rules import check

    spec, found = config.get("spec"), {}
    if not isinstance(spec, Mapping) or set(spec) != set(COMPARED):
        raise DamagedFile(f"spec does not hold {', '.join(COMPARED)}")
    try:
        for field in COMPARED:
            found[field] = fitted(spec[field], type(getattr(base, field)), f"spec.{field}")
        model = base.set(found)
        arch = model.architecture
        depths = [stack.depth for stack in arch.stacks.values()]
        deepest = max([*depths, *([arch.recurrent.depth] if arch.recurrent else [])], default=0)
        problems = [f"a depth of {deepest:,}"] if deepest > DEEPEST else [str(one) for one in check(model)]
    except (VariorumError, RecursionError) as error:
        raise DamagedFile(f"describes no model ({error})") from error
    if problems:
        raise DamagedFile(f"describes no model ({problems[0]})")
    return {**found, "name": str(config.get("name", TYPE)), "cite": str(config.get("cite", ""))}


def _choose(config: Mapping[str, Any]) -> Dialect:
    named = config.get("architectures")
    word = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else NONE
    return layout([] if word == NONE else word.split("+"))


def layout(heads: Sequence[str]) -> Dialect:
    """The layout of a model that carries these heads."""
    return OWN.but(classes={"+".join(heads) or NONE: tuple(heads)}, choose=None)


OWN = Dialect(
    model_type=TYPE,
    base=BLANK,
    prefix="",
    keys=(),
    rules=tuple(same(part, part) for part in ("encoder", "decoder", "recurrent", "pooler")),
    heads=tuple(same(f"heads.{name}", f"heads.{name}") for name in HEAD_NAMES),
    classes={NONE: ()},
    read=_read,
    write=_write,
    choose=_choose,
)
