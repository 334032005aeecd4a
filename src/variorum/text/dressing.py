"""A SentencePiece model in the clothes of its family: published ids, added and special tokens, wrapper.

:mod:`variorum.text.dialects` says what each family wears; this puts it on, under what the directory itself declares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..errors import DamagedFile
from .aligned import CleanUp
from .dialects import Dialect, WrapperEntry
from .encoding import Wrapper
from .pieces import PieceEngine, PieceModel
from .specials import Added, Declared

MAX_GAP = 10_000  # ids that a side file may leave unnamed between the model's pieces and its own tokens


def build(model: PieceModel, dialect: Dialect, declared: Declared) -> tuple[PieceEngine, Wrapper, Declared]:
    """The engine and wrapper of one directory."""
    if declared.flag("add_prefix_space") is False:
        model = model.without_prefix()
    ids, names = dialect.layout(model, dialect.languages)
    declared = declared.with_defaults(**(dict(dialect.roles) or _own_roles(model)))
    declared = _with_appended(dialect, declared, names)
    _place(names, [*declared.added.values()], model.where, fixed=len(model.names))
    position = {name: id for id, name in reversed(list(enumerate(names)))}
    special = {ids[piece] for piece in model.control}
    special |= {position[token.content] for token in declared.added.values() if token.special}
    matched = [token for token in declared.added.values() if token.content]
    spelled = {token.content for token in matched}
    matched += [Added(content=names[id]) for id in sorted(special) if names[id] not in spelled and names[id]]
    engine = PieceEngine(
        model,
        ids=ids,
        names=names,
        added=matched,
        special_ids=frozenset(special),
        clean=_clean(dialect, declared),
        prefix_after_special=declared.flag("legacy", dialect.prefix_after_special) is not False,
    )
    return engine, _wrapper(dialect, declared, position, model.where), declared


def _clean(dialect: Dialect, declared: Declared) -> CleanUp | None:
    if not dialect.clean:
        return None
    lower, accents = declared.flag("do_lower_case", dialect.lower), declared.flag("keep_accents", False)
    return CleanUp(
        lower=bool(lower), keep_accents=bool(accents), remove_space=declared.flag("remove_space", True) is not False
    )


def _own_roles(model: PieceModel) -> dict[str, str]:
    """Roles as the model file itself assigns them."""
    own: dict[str, Callable[[], int]] = {
        "bos": model.processor.bos_id,
        "eos": model.processor.eos_id,
        "unk": model.processor.unk_id,
        "pad": model.processor.pad_id,
    }
    return {role: model.names[ask()] for role, ask in own.items() if 0 <= ask() < model.size}


def _with_appended(dialect: Dialect, declared: Declared, names: list[str]) -> Declared:
    """Tokens that the family adds on its own: T5's sentinels right after the pieces, XLNet's <eop> and <eod>."""
    known = set(names)
    added = dict(declared.added)
    extra = declared.settings.get("extra_ids", dialect.sentinels) if dialect.sentinels else 0
    if type(extra) is not int or not 0 <= extra <= MAX_GAP:
        raise DamagedFile(f"extra_ids {extra!r:.40} is not a small number", where="tokenizer_config.json")
    sentinels = [f"<extra_id_{number}>" for number in reversed(range(extra))]
    if any(name in known for name in sentinels):
        sentinels = []
    for content in (*sentinels, *dialect.append):
        added.setdefault(content, Added(content=content))
    for role in dialect.strip_left:
        token = declared.roles.get(role)
        if token in added and added[token].id is None:
            added[token] = replace(added[token], strip_left=True)
    first = [added.pop(content) for content in sentinels]
    placed = [replace(token, id=len(names) + place) if token.id is None else token for place, token in enumerate(first)]
    return replace(declared, added={token.content: token for token in placed} | added)


def _place(names: list[str], tokens: list[Added], where: str, *, fixed: int) -> None:
    """Append tokens that the model lacks: those with a declared id at that id, the others at the end in order."""
    for token in sorted((t for t in tokens if t.id is not None), key=lambda t: t.id or 0):
        id = token.id or 0
        if id >= fixed + MAX_GAP:
            raise DamagedFile(f"added token {token.content[:40]!r} has id {id}, far beyond {fixed} pieces", where=where)
        names.extend([""] * (id + 1 - len(names)))
        if names[id] not in ("", token.content) and id >= fixed:
            raise DamagedFile(f"id {id} is {names[id][:40]!r} and {token.content[:40]!r}", where=where)
        names[id] = token.content
    known = set(names)
    for token in tokens:
        if token.id is None and token.content not in known:
            names.append(token.content)
            known.add(token.content)


def _wrapper(dialect: Dialect, declared: Declared, position: Mapping[str, int], where: str) -> Wrapper:
    left_out: set[str] = set()
    if dialect.switches:
        if declared.flag("add_bos_token", True) is False:
            left_out.add("bos")
        if not declared.flag("add_eos_token", False):
            left_out.add("eos")

    roles = dict(declared.roles)
    if dialect.languages:
        roles["language"] = str(declared.settings.get("src_lang") or dialect.language)

    def entries(template: WrapperEntry) -> list[tuple[int | str, int]]:
        out: list[tuple[int | str, int]] = []
        for what, type_id in template:
            if what in ("A", "B"):
                out.append((what, type_id))
            elif what not in left_out:
                token = roles.get(what)
                if token is None or token not in position:
                    raise DamagedFile(f"the {dialect.name} wrapper needs a {what} token", where=where)
                out.append((position[token], type_id))
        return out

    return Wrapper.of(entries(dialect.single), entries(dialect.pair))
