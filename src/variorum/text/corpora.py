"""The texts that ship with the package: six novels, and snippets rated by people.

Sources and terms are in ``data/README.md``. Both load in well under a second and need no network.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from .readers import read_text

NOVELS = {
    "Emma": "austen-emma",
    "Mansfield Park": "austen-mansfieldpark",
    "Northanger Abbey": "austen-northangerabbey",
    "Persuasion": "austen-persuasion",
    "Pride and Prejudice": "austen-prideprejudice",
    "Sense and Sensibility": "austen-sensesensibility",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Snippet:
    """A rated text: its domain ("product", "movie", "editorial", "tweet") and the mean rating from −4 to +4."""

    domain: str
    id: str
    rating: float
    text: str


def austen() -> dict[str, str]:
    """Six novels by Jane Austen, by title: one line per printed line, blank lines between paragraphs."""
    return {title: _shipped(f"{name}.txt.gz") for title, name in NOVELS.items()}


def sentiment() -> list[Snippet]:
    """23,703 snippets, each rated by ten people (Hutto & Gilbert 2014), in file order."""
    header, *lines = _shipped("sentiment.tsv.gz").rstrip("\n").split("\n")
    if header.split("\t") != ["domain", "id", "rating", "text"]:
        raise AssertionError(f"the shipped file has another header: {header}")
    out: list[Snippet] = []
    for line in lines:
        domain, id, rating, text = line.split("\t")
        out.append(Snippet(domain=domain, id=id, rating=float(rating), text=text))
    return out


def _shipped(name: str) -> str:
    with resources.as_file(resources.files("variorum") / "data" / name) as path:
        return read_text(Path(path))
