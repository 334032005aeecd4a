"""``python -m benchmarks [NAME ...] [--quick]``: measure, print tables and JSON; all of them also write ``RESULTS.md``.

A goal that is missed is printed as missed, with what holds it back. The command fails where an answer of ours is wrong,
or where ours cannot be measured.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

from benchmarks.harness import machine, report
from benchmarks.harness.job import Job

FOLDER = Path(__file__).parent
QUICK = "--quick"


def main(words: list[str]) -> int:
    """Run the named benchmarks, or all."""
    known = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
    names = [word for word in words if word != QUICK]
    if unknown := sorted(set(names) - set(known)):
        print(f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    about, quick = machine.about(), QUICK in words
    if quick:
        about["quick"] = True
    found: dict[str, list[Job]] = {}
    for name in names or known:
        begin = time.perf_counter()
        found[name] = importlib.import_module(f"benchmarks.{name}").measure(quick)
        print("\n".join(report.printed(name, found[name], about)), flush=True)
        print(f"{name} took {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    if not names and not quick:
        (FOLDER / "RESULTS.md").write_text(report.page(found, about), "utf-8")
    return int(any(job.faults for jobs in found.values() for job in jobs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
