"""Which tokens are special, and what they are for, as a published directory says it.

Three files may say so (``tokenizer_config.json``, ``special_tokens_map.json``, ``added_tokens.json``), in several
spellings that releases have used. This reads them all into one form; it does not touch a vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import DamagedFile
from .tokenizer import ROLES


@dataclass(frozen=True, kw_only=True)
class Added:
    """A token that is matched in the text before the algorithm sees it.

    ``strip_left`` and ``strip_right`` swallow the whitespace beside it; ``id`` is None where the files leave it open.
    """

    content: str
    id: int | None = None
    strip_left: bool = False
    strip_right: bool = False
    single_word: bool = False
    normalized: bool = False
    special: bool = True


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Everything the side files say: settings, role → token, and added tokens by content."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, Added] = field(default_factory=dict)

    def flag(self, name: str, default: bool | None = None) -> bool | None:
        """A true / false / unset switch of ``tokenizer_config.json``."""
        value = self.settings.get(name, default)
        if value is not None and not isinstance(value, bool):
            raise DamagedFile(f"{name} must be true or false, found {value!r:.40}", where="tokenizer_config.json")
        return value

    def with_defaults(self, **roles: str) -> Declared:
        """Fill roles that the files leave open; every default becomes an added special token too."""
        merged = {role: token for role, token in roles.items() if role not in self._silenced()}
        merged |= self.roles
        added = dict(self.added)
        for token in merged.values():
            added.setdefault(token, Added(content=token))
        return replace(self, roles=merged, added=added)

    def _silenced(self) -> set[str]:
        """Roles that the configuration sets to null on purpose."""
        return {role for role in ROLES if f"{role}_token" in self.settings and self.settings[f"{role}_token"] is None}


def declared(config: Mapping[str, Any], special_map: Mapping[str, Any], added_ids: Mapping[str, Any]) -> Declared:
    """Merge the three side files; ``tokenizer_config.json`` has the last word."""
    roles: dict[str, str] = {}
    added: dict[str, Added] = {}

    def remember(token: Added) -> None:
        known = added.get(token.content)
        if known is not None and token.id is None:
            token = replace(token, id=known.id)
        added[token.content] = token

    for content, id in added_ids.items():
        remember(Added(content=content, id=_index(id, "added_tokens.json"), special=False, normalized=True))
    for name, source in (("special_tokens_map.json", special_map), ("tokenizer_config.json", config)):
        for role in ROLES:
            value = source.get(f"{role}_token")
            if value is not None:
                token = _added(value, name)
                roles[role] = token.content
                remember(token)
        for key in ("additional_special_tokens", "extra_special_tokens"):
            more = source.get(key) or []
            if isinstance(more, dict):
                more = list(more.values())
            if not isinstance(more, list):
                raise DamagedFile(f"{key} must be a list", where=name)
            for value in more:
                remember(_added(value, name))
    decoder = config.get("added_tokens_decoder") or {}
    if not isinstance(decoder, dict):
        raise DamagedFile("added_tokens_decoder must map ids to tokens", where="tokenizer_config.json")
    for id, value in decoder.items():
        token = _added(value, "tokenizer_config.json", special=False)
        remember(replace(token, id=_index(id, "tokenizer_config.json")))
    for content in roles.values():
        added[content] = replace(added[content], special=True)
    return Declared(settings=dict(config), roles=roles, added=added)


def _index(value: Any, where: str) -> int:
    try:
        index = int(value)
    except (TypeError, ValueError):
        index = -1
    if isinstance(value, bool) or not 0 <= index < 2**31:
        raise DamagedFile(f"{value!r:.40} is no token id", where=where)
    return index


def _added(value: Any, where: str, *, special: bool = True) -> Added:
    if isinstance(value, str):
        return Added(content=value, special=special)
    if isinstance(value, dict) and isinstance(value.get("content"), str):
        return Added(
            content=value["content"],
            strip_left=bool(value.get("lstrip", False)),
            strip_right=bool(value.get("rstrip", False)),
            single_word=bool(value.get("single_word", False)),
            normalized=bool(value.get("normalized", False)),
            special=bool(value.get("special", special)),
        )
    raise DamagedFile(f"expected a token, found {value!r:.40}", where=where)


def read_declared(directory: Path, parse: Any) -> Declared:
    """The side files of a directory; absent ones say nothing. ``parse(path)`` gives a JSON object."""
    found = [
        parse(directory / name) if (directory / name).exists() else {}
        for name in ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
    ]
    return declared(*found)
