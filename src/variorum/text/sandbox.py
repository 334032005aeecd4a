"""A program of its own: renders one chat template in a sandbox, in a process with limits.

``python -I sandbox.py`` reads ``{"template", "variables"}`` as JSON and answers ``{"text"}``, ``{"refused"}`` (the
template itself said no) or ``{"broken"}``. A template comes from anywhere: the sandbox keeps it from attributes that
lead out, the limits from time and memory, which a sandbox cannot (``'A' * 10**9`` is computed when it is compiled).
It is run by :mod:`variorum.text.chat` and imports nothing of this package. What templates may use is what they use
elsewhere: ``raise_exception``, ``strftime_now``, ``tojson``, loop controls and ``{% generation %}``.
"""

from __future__ import annotations

import json
import resource
import sys
from datetime import datetime
from typing import Any

SECONDS, MEMORY, MOST_TEXT = 5, 1 << 30, 8 << 20


def limit() -> None:
    """Bound this process."""
    for what, most in (
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def environment() -> Any:
    """What a template runs in."""
    from jinja2 import nodes
    from jinja2.exceptions import SecurityError, TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from jinja2.utils import Namespace

    class Generation(Extension):
        """``{% generation %}`` marks what the model wrote; it changes nothing of the text."""

        tags = {"generation"}  # noqa: RUF012 - the library's own way

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    class Names(Namespace):
        """A namespace that keeps nothing under a name of Python's own."""

        def __setitem__(self, name: str, value: Any) -> None:
            if name.startswith("_"):
                raise SecurityError(f"a namespace takes no {name!r}")
            super().__setitem__(name, value)

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        # Not the library's own, which escapes for HTML.
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals |= {
        "raise_exception": refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "namespace": Names,
    }
    return made


def render(template: str, variables: dict[str, Any]) -> dict[str, str]:
    """The rendered text, or why there is none."""
    from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError, UndefinedError

    parts: list[str] = []
    size = 0
    try:
        for part in environment().from_string(template).generate(**variables):
            parts.append(part)
            size += len(part)
            if size > MOST_TEXT:
                return {"broken": f"it writes more than {MOST_TEXT:,} characters"}
    except (TemplateSyntaxError, UndefinedError, SecurityError) as error:
        return {"broken": f"{type(error).__name__}: {error}"}
    except TemplateError as error:
        return {"refused": str(error)}
    except MemoryError:
        return {"broken": f"it takes more than {MEMORY:,} bytes"}
    except Exception as error:
        return {"broken": f"{type(error).__name__}: {error}"}
    return {"text": "".join(parts)}


def main() -> None:
    """Answer one request."""
    limit()
    request = json.load(sys.stdin)
    sys.stdout.write(json.dumps(render(request["template"], request["variables"])))


if __name__ == "__main__":
    main()
