"""Ready studies: published claims, each as a study file at a size that two cores train.

A file in ``studies/`` holds the settings of a study (see :mod:`~variorum.study.asked`), and beside them ``published``
(the figure and where it stands) and ``changed`` (what is smaller here than there). A claim that needs no training has
``checks`` in place of settings: names for ``variorum check``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from variorum.errors import NotFound, UsageError, nearest
from variorum.study.asked import Told, asked, read

FOLDER = Path(__file__).parent / "studies"


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A study of the library.

    Attributes:
        asked: its settings; ``None`` where ``checks`` try it at once.
    """

    name: str
    title: str
    published: str
    changed: str
    asked: Told | None
    checks: tuple[str, ...] = ()


def ready() -> list[Ready]:
    """All of them, in the order of their names."""
    return [_read(path) for path in sorted(FOLDER.glob("*.toml"))]


def find(name: str) -> Ready:
    """The one of this name, or the only one whose name begins so ("z05").

    Raises:
        NotFound: none, or several.
    """
    names = [path.stem for path in sorted(FOLDER.glob("*.toml"))]
    found = [one for one in names if one == name] or [one for one in names if one.startswith(f"{name}-")]
    if len(found) != 1:
        raise NotFound(f"no ready study is called {name!r}", remedy=nearest(name, names) or "see variorum study list")
    return _read(FOLDER / f"{found[0]}.toml")


def checks(study: str) -> tuple[str, ...]:
    """The checks that a ready study of this name consists of, if it does."""
    return () if study.endswith(".toml") or not study else find(study).checks


def named(study: str) -> Told:
    """What a study file, or the ready study of a name, asks for.

    Raises:
        UsageError: nothing is trained for it. What reading it raises.
    """
    if study.endswith(".toml"):
        return read(Path(study))
    found = find(study)
    if found.asked is None:
        checks = " ".join(found.checks)
        raise UsageError("is tried at once, without arms", where=found.name, remedy=f"variorum check {checks}")
    return found.asked


def _read(path: Path) -> Ready:
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    name, title, published, changed = path.stem, told["title"], told.pop("published"), told.pop("changed")
    if checks := tuple(told.get("checks", ())):
        return Ready(name=name, title=title, published=published, changed=changed, asked=None, checks=checks)
    made = asked(told, where=path.name)
    return Ready(name=name, title=title, published=published, changed=changed, asked=made)
