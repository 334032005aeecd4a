"""Ready studies: published claims, each as a study file at a size that two cores train.

A file in ``studies/`` holds the settings of :class:`~variorum.study.asked.Asked`, and beside them ``published`` (the
figure and where it stands) and ``changed`` (what is smaller here than there).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from variorum.errors import NotFound, nearest
from variorum.study.asked import Asked, Told, asked, read

FOLDER = Path(__file__).parent / "studies"


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A study of the library."""

    name: str
    published: str
    changed: str
    asked: Asked


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


def named(study: str) -> Told:
    """What a study file, or the ready study of a name, asks for; raises as those that read them."""
    return read(Path(study)) if study.endswith(".toml") else find(study).asked


def _read(path: Path) -> Ready:
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    published, changed = told.pop("published"), told.pop("changed")
    ready = asked(told, where=path.name)
    assert isinstance(ready, Asked), "the claims of the library are about pretraining"
    return Ready(name=path.stem, published=published, changed=changed, asked=ready)
