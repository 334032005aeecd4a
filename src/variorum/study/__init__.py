"""Controlled studies: arms, a plan with its cost, cells run fairly over seeds, intervals, verdicts, a report.

A study compares; it does not define models (`family`), train them (`training`) or score tasks (`tasks`). From Python,
``variorum.study(...)`` carries one through: the package is called by the name of the verb.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from variorum.study.session import Finding


class _Verb(ModuleType):
    """A package that is called as what it does; :func:`variorum.study.face.study` says how."""

    def __call__(self, *what: Any, **words: Any) -> Finding:
        from variorum.study.face import study

        return study(*what, **words)


sys.modules[__name__].__class__ = _Verb
