"""The part of a page that a command writes, between two marks that stay."""

from __future__ import annotations

from pathlib import Path


def write(page: Path, begin: str, end: str, text: str) -> None:
    """Put ``text`` between the marks ``begin`` and ``end`` of ``page``, in place of what stands there."""
    whole = page.read_text("utf-8")
    before, after = whole.partition(begin)[0], whole.partition(end)[2]
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", "utf-8")
