"""What each family puts around its SentencePiece model: special tokens, id shifts, appended tokens, wrapper.

One entry per family, as data. A directory names its family in ``tokenizer_config.json`` or ``config.json``; where it
does not, the model's own pieces tell. Ids follow the released checkpoints: T5's sentinels count down from the end of
the vocabulary, XLM-R keeps fairseq's first four ids and so shifts all others by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ..errors import DamagedFile
from .aligned import CleanUp
from .encoding import Side, Wrapper
from .pieces import PieceEngine, PieceModel
from .specials import Added, Declared

MAX_GAP = 10_000  # ids that a side file may leave unnamed between the model's pieces and its own tokens

WrapperEntry = list[tuple[str, int]]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """How one family uses its ``.model`` file. Wrappers are written as roles, with A and B for the texts."""

    name: str
    single: WrapperEntry
    pair: WrapperEntry
    roles: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    append: tuple[str, ...] = ()
    fairseq: bool = False
    clean: bool = False
    lower: bool = False
    strip_left: tuple[str, ...] = ()
    prefix_after_special: bool = True
    padding_side: Side = "right"
    pad_type_id: int = 0
    switches: bool = False  # bos and eos are put or left out by add_bos_token and add_eos_token


T5 = Dialect(
    name="t5",
    classes=("t5", "mt5", "umt5", "byt5", "flan"),
    roles={"eos": "</s>", "unk": "<unk>", "pad": "<pad>"},
    single=[("A", 0), ("eos", 0)],
    pair=[("A", 0), ("eos", 0), ("B", 0), ("eos", 0)],
)
ALBERT = Dialect(
    name="albert",
    classes=("albert",),
    roles={"bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "sep": "[SEP]", "pad": "<pad>", "cls": "[CLS]",
           "mask": "[MASK]"},
    single=[("cls", 0), ("A", 0), ("sep", 0)],
    pair=[("cls", 0), ("A", 0), ("sep", 0), ("B", 1), ("sep", 1)],
    clean=True,
    lower=True,
    strip_left=("mask",),
)  # fmt: skip
XLNET = Dialect(
    name="xlnet",
    classes=("xlnet",),
    roles={"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "<sep>", "pad": "<pad>", "cls": "<cls>",
           "mask": "<mask>"},
    append=("<eop>", "<eod>"),
    single=[("A", 0), ("sep", 0), ("cls", 2)],
    pair=[("A", 0), ("sep", 0), ("B", 1), ("sep", 1), ("cls", 2)],
    clean=True,
    strip_left=("mask",),
    padding_side="left",
    pad_type_id=3,
)  # fmt: skip
XLM_R = Dialect(
    name="xlm-roberta",
    classes=("xlmroberta", "xlm-roberta"),
    roles={"bos": "<s>", "eos": "</s>", "sep": "</s>", "cls": "<s>", "unk": "<unk>", "pad": "<pad>",
           "mask": "<mask>"},
    single=[("cls", 0), ("A", 0), ("sep", 0)],
    pair=[("cls", 0), ("A", 0), ("sep", 0), ("sep", 0), ("B", 0), ("sep", 0)],
    fairseq=True,
    strip_left=("mask",),
)  # fmt: skip
DEBERTA_V2 = Dialect(
    name="deberta-v2",
    classes=("debertav2", "deberta-v2", "deberta-v3"),
    roles={"bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]",
           "mask": "[MASK]"},
    single=[("cls", 0), ("A", 0), ("sep", 0)],
    pair=[("cls", 0), ("A", 0), ("sep", 0), ("B", 1), ("sep", 1)],
)  # fmt: skip
LLAMA = Dialect(
    name="llama",
    classes=("llama", "mistral", "mixtral", "gemma", "vicuna", "alpaca", "baichuan", "yi"),
    single=[("bos", 0), ("A", 0), ("eos", 0)],
    pair=[("bos", 0), ("A", 0), ("eos", 0), ("bos", 1), ("B", 1), ("eos", 1)],
    prefix_after_special=False,
    padding_side="left",
    switches=True,
)
DIALECTS = (XLM_R, DEBERTA_V2, ALBERT, XLNET, T5, LLAMA)


def dialect_of(class_name: str, model_type: str, pieces: set[str], file_name: str) -> Dialect:
    """The family of a directory: by its declared class, else by model type, else by what the model contains.

    Args:
        class_name: ``tokenizer_class`` of the settings, or "".
        model_type: ``model_type`` of ``config.json``, or "".
        pieces: spellings of the model's pieces.
        file_name: the model file's name.
    """
    for name in (class_name, model_type):
        plain = name.lower().removesuffix("fast").removesuffix("tokenizer")
        for dialect in DIALECTS:
            if plain in dialect.classes:
                return dialect
    if file_name == "sentencepiece.bpe.model":
        return XLM_R
    if "[CLS]" in pieces:
        return DEBERTA_V2 if "[UNK]" in pieces else ALBERT
    if "<sep>" in pieces and "<cls>" in pieces:
        return XLNET
    return T5 if file_name == "spiece.model" else LLAMA


def build(model: PieceModel, dialect: Dialect, declared: Declared) -> tuple[PieceEngine, Wrapper, Declared]:
    """The engine and wrapper of one directory."""
    ids, names = _fairseq(model) if dialect.fairseq else (list(range(model.size)), list(model.names))
    declared = declared.with_defaults(**(dict(dialect.roles) or _own_roles(model)))
    declared = _with_appended(dialect, declared, set(names))
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


def _fairseq(model: PieceModel) -> tuple[list[int], list[str]]:
    """fairseq's dictionary: <s>, <pad>, </s>, <unk>, then the model's pieces from its fourth on, then <mask>."""
    if model.size < 3 or model.processor.unk_id() != 0:
        raise DamagedFile("the model's first three pieces are not <unk>, <s>, </s>", where=model.where)
    names = ["<s>", "<pad>", "</s>", "<unk>", *model.names[3:], "<mask>"]
    return [3, 0, 2, *range(4, model.size + 1)], names


def _with_appended(dialect: Dialect, declared: Declared, known: set[str]) -> Declared:
    """Tokens that the family adds on its own: T5's sentinels in descending order, XLNet's <eop> and <eod>."""
    added = dict(declared.added)
    extra = declared.settings.get("extra_ids", 100) if dialect is T5 else 0
    if type(extra) is not int or not 0 <= extra <= MAX_GAP:
        raise DamagedFile(f"extra_ids {extra!r:.40} is not a small number", where="tokenizer_config.json")
    sentinels = [f"<extra_id_{number}>" for number in reversed(range(extra))]
    if dialect is T5 and any(name in known for name in sentinels):
        sentinels = []
    for content in (*sentinels, *dialect.append):
        added.setdefault(content, Added(content=content))
    for role in dialect.strip_left:
        token = declared.roles.get(role)
        if token in added and added[token].id is None:
            added[token] = replace(added[token], strip_left=True)
    first = [added.pop(content) for content in sentinels]
    return replace(declared, added={token.content: token for token in first} | added)


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

    def entries(template: WrapperEntry) -> list[tuple[int | str, int]]:
        out: list[tuple[int | str, int]] = []
        for what, type_id in template:
            if what in ("A", "B"):
                out.append((what, type_id))
            elif what not in left_out:
                token = declared.roles.get(what)
                if token is None or token not in position:
                    raise DamagedFile(f"the {dialect.name} wrapper needs a {what} token", where=where)
                out.append((position[token], type_id))
        return out

    return Wrapper.of(entries(dialect.single), entries(dialect.pair))
