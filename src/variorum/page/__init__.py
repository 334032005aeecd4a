"""Pages that stand alone: one file, one style sheet, no script, no network, readable on a phone.

Everything shown is text, or a drawing of :mod:`.charts`. The template escapes all text, and the page's own policy
forbids everything but its one style sheet. This module knows no report; those that write one bring a template that
fills ``{% block body %}`` of ``page.html.j2``.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Any

from markupsafe import Markup

BASE, STYLE = "page.html.j2", "page.css"


def render(package: str, template: str, **values: Any) -> str:
    """The page that ``template``, a file of ``package``, makes of ``values``; ``title`` and ``colophon`` among them."""
    from jinja2 import DictLoader, Environment, StrictUndefined

    here = resources.files("variorum.page")
    css = here.joinpath(STYLE).read_text(encoding="utf-8")
    sources = {
        BASE: here.joinpath(BASE).read_text(encoding="utf-8"),
        template: resources.files(package).joinpath(template).read_text(encoding="utf-8"),
    }
    environment = Environment(
        loader=DictLoader(sources), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    return environment.get_template(template).render(
        css=Markup(css),  # our own file; its hash is what the page's policy allows
        css_hash=base64.b64encode(hashlib.sha256(css.encode()).digest()).decode(),
        **values,
    )
