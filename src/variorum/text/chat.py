"""Conversations as text and as ids, by a checkpoint's own chat template.

The template is rendered in a sandbox in a limited process (:mod:`.sandbox`). Its special tokens are special tokens;
the same spelling inside a message is text, unless asked otherwise: nobody who writes to a model can end their own turn
and begin another's. The template writes the begin token itself where it wants one, so none is put around the result.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DamagedFile, UsageError
from . import sandbox
from .guard import decode_text, parse_json

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

Message = Mapping[str, Any]
WALL_SECONDS = 30  # the machine may be busy; processor time is what a template is held to
MOST_TEMPLATE = 1 << 20
WHERE = "the chat template"


def template_of(tokenizer: Tokenizer, name: str = "default") -> str:
    """The chat template that a tokenizer's files hold.

    Args:
        tokenizer: whose files.
        name: which, where a checkpoint has several.

    Raises:
        UsageError: there is none, or none of this name.
        DamagedFile: it is no text, or longer than any template.
    """
    own = tokenizer.files.get("chat_template.jinja")
    if own is not None and name == "default":
        return _checked(decode_text(own, Path("chat_template.jinja")))
    settings = tokenizer.files.get("tokenizer_config.json", b"{}")
    found = parse_json(settings, Path("tokenizer_config.json")).get("chat_template")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        if name not in named:
            raise UsageError(f"no chat template is called {name!r}", remedy=f"there are {', '.join(map(str, named))}")
        found = named[name]
    if found is None:
        raise UsageError("has no chat template", where="the tokenizer", remedy="give plain text, without chat")
    return _checked(found)


def has_template(tokenizer: Tokenizer) -> bool:
    """Whether its files hold a chat template."""
    try:
        template_of(tokenizer)
    except UsageError:
        return False
    return True


def _checked(template: Any) -> str:
    if not isinstance(template, str) or len(template) > MOST_TEMPLATE:
        raise DamagedFile(f"is no text of at most {MOST_TEMPLATE:,} characters", where=WHERE)
    return template


def chat_text(
    tokenizer: Tokenizer, messages: Sequence[Message], *, add_generation_prompt: bool = True,
    template: str | None = None, **variables: Any,
) -> str:  # fmt: skip
    """A conversation as the one text that the model was trained on.

    Args:
        tokenizer: its template and special tokens are used.
        messages: turns in order, each with ``role`` and ``content``, and what else the template reads.
        add_generation_prompt: end with what begins the model's own turn.
        template: instead of the checkpoint's.
        variables: what else the template reads, such as ``tools`` or ``enable_thinking``.

    Raises:
        UsageError: no template, messages that are none, or a conversation that the template refuses.
        DamagedFile: a template that fails, or takes more time or memory than any should.
    """
    _check_messages(messages)
    special = {f"{role}_token": token for role, token in tokenizer.special.items()}
    given = {"messages": [dict(message) for message in messages], "add_generation_prompt": add_generation_prompt,
             "tools": None, "documents": None, **special, **variables}  # fmt: skip
    return _rendered(template_of(tokenizer) if template is None else _checked(template), given)


def chat_ids(
    tokenizer: Tokenizer, messages: Sequence[Message], *, add_generation_prompt: bool = True,
    allow_special_text: bool = False, template: str | None = None, **variables: Any,
) -> list[int]:  # fmt: skip
    """A conversation as ids: the template's special tokens as such, those spelt out in a message as text.

    Args:
        allow_special_text: read a special token spelt out in a message as that token. Others: see :func:`chat_text`.

    Raises:
        UsageError, DamagedFile: see :func:`chat_text`.
    """
    hidden = _Hidden(tokenizer)
    shown = messages if allow_special_text else hidden.hide(messages)
    text = chat_text(tokenizer, shown, add_generation_prompt=add_generation_prompt, template=template, **variables)
    if not hidden.stand_ins:
        return tokenizer.encode(text, specials=False, allow_special_text=True).ids
    return _mixed(tokenizer, hidden.parts(text))


def chat_form(
    tokenizer: Tokenizer, messages: Sequence[Message], place: str, **variables: Any
) -> Callable[[str, str], list[int]]:
    """A conversation to be filled in many times: its template, which is a process to render, is rendered once.

    Args:
        place: what stands in one message where a text will be; no other part of the conversation may hold it.
        Others: see :func:`chat_ids`.

    Returns:
        A function of a text, which goes to the place, and of how the model's turn begins, that gives ids.

    Raises:
        UsageError, DamagedFile: see :func:`chat_text`; or the template does not show the place once.
    """
    hidden = _Hidden(tokenizer)
    rendered = chat_text(tokenizer, hidden.hide(messages), **variables)
    if rendered.count(place) != 1:
        raise DamagedFile("does not show a message once, as it is", where=WHERE)
    parts = hidden.parts(rendered)

    def filled(text: str, turn: str) -> list[int]:
        said = [part.replace(place, text) if isinstance(part, str) else part for part in parts]
        last = said.pop() if isinstance(said[-1], str) else ""
        return _mixed(tokenizer, [*said, *([f"{last}{turn}"] if last or turn else [])])

    return filled


def _check_messages(messages: Sequence[Message]) -> None:
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise UsageError("is no message: each has a role and its content", where=f"message {number}")
    if not messages:
        raise UsageError("a conversation has at least one message")


class _Hidden:
    """Special tokens in messages, behind stand-ins that no template and no tokenizer knows.

    ``stand_ins`` maps each to the spelling behind it; a private-use character opens and closes one.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        names = {tokenizer.engine.names[id]: id for id in tokenizer.special_ids if tokenizer.engine.names[id]}
        self.ids = names
        longest_first = sorted(names, key=lambda name: (-len(name), name))
        self._specials = re.compile("|".join(map(re.escape, longest_first))) if names else None
        self.stand_ins: dict[str, str] = {}
        self._mark = ""

    def hide(self, messages: Sequence[Message]) -> list[Message]:
        said = json.dumps(list(messages), ensure_ascii=False, default=str)
        self._mark = next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in said)
        return [{key: self._hidden(value) for key, value in message.items()} for message in messages]

    def _hidden(self, value: Any) -> Any:
        if isinstance(value, str) and self._specials is not None:
            return self._specials.sub(self._stand_in, value)
        if isinstance(value, Mapping):
            return {key: self._hidden(item) for key, item in value.items()}
        return [self._hidden(item) for item in value] if isinstance(value, list | tuple) else value

    def _stand_in(self, match: re.Match[str]) -> str:
        made = f"{self._mark}{self.ids[match.group()]}{self._mark}"
        self.stand_ins[made] = match.group()
        return made

    def parts(self, text: str) -> list[str | int]:
        """The text cut at the template's own special tokens, which are ids; what was hidden is spelt out again."""
        found: list[str | int] = []
        done = 0
        for match in self._specials.finditer(text) if self._specials is not None else ():
            found += [self._shown(text[done : match.start()]), self.ids[match.group()]]
            done = match.end()
        return [part for part in (*found, self._shown(text[done:])) if part != ""]

    def _shown(self, text: str) -> str:
        for made, spelling in self.stand_ins.items():
            text = text.replace(made, spelling)
        return text


def _mixed(tokenizer: Tokenizer, parts: Sequence[str | int]) -> list[int]:
    """Ids of plain texts and of the special tokens between them, as if a text with both had been read."""
    engine = tokenizer.engine
    mixed = getattr(engine, "mixed", None)  # where what follows a special token is read in another way
    if mixed is not None:
        return list(mixed(parts))
    texts = [part for part in parts if isinstance(part, str)]
    read = iter(engine.encode(texts, allow_special_text=False) if texts else ())
    return [id for part in parts for id in ([part] if isinstance(part, int) else next(read)[0])]


def _rendered(template: str, variables: Mapping[str, Any]) -> str:
    try:
        request = json.dumps({"template": template, "variables": variables}, ensure_ascii=True)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the conversation holds what JSON cannot ({error})") from None
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "LANG", "TZ") if name in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-B", sandbox.__file__], input=request, env=kept, capture_output=True, text=True,
            encoding="utf-8", timeout=WALL_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise DamagedFile(f"takes more than {WALL_SECONDS} s", where=WHERE) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        if "No module named 'jinja2'" in last:
            raise UsageError("chat templates need the package Jinja2", remedy="pip install 'jinja2>=3.1.6'")
        ended = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
        limits = f"{sandbox.SECONDS} s and {sandbox.MEMORY >> 20:,} MiB"
        raise DamagedFile(f"takes more than {limits}, or breaks what renders it ({ended})", where=WHERE)
    answer: dict[str, str] = json.loads(done.stdout)
    if "refused" in answer:
        raise UsageError(f"the chat template refuses this conversation ({answer['refused'][:300]})")
    if "broken" in answer:
        raise DamagedFile(f"cannot be rendered ({answer['broken'][:300]})", where=WHERE)
    return answer["text"]
