"""Help pages: what a verb does and how it is called, from its signature and its docstring, as plain text."""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence

from variorum.cli import VERBS
from variorum.cli.reading import REQUIRED, Field, Verbs, fields, parameters

ABOUT = "The transformer family as an edition with variants: every model a short diff on its ancestor."
SHARED = (
    ("--format {human,json,jsonl}", "A table for people, one JSON document, or one JSON object a line."),
    ("--debug", "Show the traceback of a failure."),
    ("-h, --help", "This page."),
)
VERSION = ("--version", "The version of the package.")
WIDEST, NAMES = 100, 27
Rows = Sequence[tuple[str, str]]


def front() -> str:
    """The page of the whole program: its verbs, in their groups."""
    groups = [
        (group, [(verb.name, verb.summary) for verb in VERBS if verb.group == group])
        for group in dict.fromkeys(verb.group for verb in VERBS)
    ]
    return _page("variorum COMMAND [OPTIONS]", ABOUT, [*groups, ("Options of every command", (*SHARED, VERSION))])


def of_verbs(name: str, group: Verbs) -> str:
    """The page of a verb of several verbs."""
    inner = [(verb, _told(command.__doc__)[0]) for verb, command in group.verbs.items()]
    sections = [("Commands", inner), ("Options of every command", SHARED)]
    return _page(f"variorum {name} COMMAND [OPTIONS]", group.summary, sections)


def of_verb(name: str, command: Callable[..., object]) -> str | None:
    """The page of one verb; ``None`` where the reader does not know its options."""
    known = fields(command)
    if known is None:
        return None
    told = _told(command.__doc__)[1]
    for _, _, hint, _ in parameters(command):
        for kind in reversed(getattr(hint, "__mro__", ())):
            told = {**_told(kind.__doc__)[1], **told} if "__dataclass_fields__" in vars(kind) else told
    arguments = [(f.flag, _text(f, told)) for f in known if f.place in ("argument", "rest")]
    options = [(_heading(f), _text(f, told)) for f in known if f.place in ("option", "switch")]
    usage = " ".join(["variorum", name, *filter(None, map(_usage, known)), "[OPTIONS]"])
    sections = [("Arguments", arguments), ("Options", options), ("Options of every command", SHARED)]
    return _page(usage, _about(command.__doc__), sections)


def _usage(field: Field) -> str:
    if field.place == "argument":
        return field.flag if field.default is REQUIRED else f"[{field.flag}]"
    if field.place == "rest":
        return f"[{field.flag} ...]"
    return _heading(field) if field.default is REQUIRED else ""


def _heading(field: Field) -> str:
    if field.place == "switch":
        return field.flag
    value = "{" + ",".join(field.choices) + "}" if field.choices else field.type.__name__.upper()
    return f"{field.flag} {value}{' ...' if field.many else ''}"


def _text(field: Field, told: Mapping[str, str]) -> str:
    plain = field.default is REQUIRED or field.default in (None, False, (), "")
    default = "" if plain else f"[default: {field.default}]"
    several = "[may be repeated]" if field.several and field.place == "option" and not field.many else ""
    return " ".join(filter(None, (told.get(field.name, field.help), several, default)))


def _about(doc: str | None) -> str:
    return inspect.cleandoc(doc or "").partition("\nArgs:")[0].strip()


def _told(doc: str | None) -> tuple[str, dict[str, str]]:
    """The first paragraph of a docstring, and what it says of each argument."""
    about, _, args = inspect.cleandoc(doc or "").partition("\nArgs:\n")
    told: dict[str, str] = {}
    name = ""
    for line in args.splitlines():
        if line and not line.startswith(" "):
            break
        if line.startswith("    ") and not line.startswith("     "):
            name, _, text = line.strip().partition(": ")
            told[name] = text
        elif name and line.strip():
            told[name] += f" {line.strip()}"
    return " ".join(about.partition("\n\n")[0].split()), told


def _page(usage: str, about: str, sections: Sequence[tuple[str, Rows]]) -> str:
    width = min(WIDEST, _columns())
    lines = textwrap.wrap(f"Usage: {usage}", width, subsequent_indent="       ")
    for paragraph in about.split("\n\n"):
        lines += ["", *textwrap.wrap(" ".join(paragraph.split()), width)]
    for title, rows in sections:
        names = min(NAMES, max((len(name) for name, _ in rows), default=0))
        if rows:
            lines += ["", title, *(line for row in rows for line in _row(*row, names, width))]
    return "\n".join(lines)


def _row(name: str, text: str, names: int, width: int) -> list[str]:
    indent = " " * (names + 4)
    wrapped = textwrap.wrap(text, max(width - len(indent), 20)) or [""]
    if len(name) > names:
        return [f"  {name}", *(indent + line for line in wrapped)]
    return [f"  {name:<{names}}  {wrapped[0]}".rstrip(), *(indent + line for line in wrapped[1:])]


def _columns() -> int:
    """Columns of the terminal, or 80."""
    if os.environ.get("COLUMNS", "").isdigit():
        return int(os.environ["COLUMNS"]) or 80
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80
