"""A study from Python: the words of a study file in, a finding out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from variorum.study import library, report, session
from variorum.study.asked import asked, changed, keep
from variorum.study.executors import Named
from variorum.study.session import Finding, Limits


def study(
    what: str | Path = "", *, out: str | Path = "", workers: int | None = None, executor: Named = "local",
    time_limit: float | None = None, **words: Any,
) -> Finding:  # fmt: skip
    """Carry a study through, as ``variorum study run`` does; a script calls it under ``if __name__ == "__main__"``.

    Args:
        what: a study file, or the name of a ready study; nothing, where ``words`` say all.
        out: its folder, for cells, report.html and result.json; ``study-NAME`` if absent.
        workers: cells side by side, one thread each. executor: what runs them.
        time_limit: minutes that the plan may foretell.
        words: keys of a study file; with ``models`` it is a bake-off. They depart from ``what``.

    Raises:
        UsageError: a word that no study knows, or a study that makes no sense. OverBudget: the plan does not fit.
        RunFailed: not one cell finished.
    """
    where = "variorum.study"
    told = changed(library.named(str(what)), words, where=where) if what else asked(words, where=where)
    folder = Path(out or f"study-{Path(what).stem or 'run'}")
    limits = Limits(workers=workers, executor=executor, time=None if time_limit is None else 60 * time_limit)
    declared = told.declare(folder, limits=limits, say=lambda line: print(line, file=sys.stderr))
    keep(told, folder)
    finding = session.run(declared)
    said = [repr(str(what))] * bool(what) + [f"{name}={value!r}" for name, value in words.items()]
    report.write(finding, folder, f"variorum.study({', '.join((*said, f'out={str(folder)!r}'))})")
    return finding
