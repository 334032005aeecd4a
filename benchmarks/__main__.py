"""``python -m benchmarks [NAME ...] [--quick]``: measure, print tables and JSON, and draw ``RESULTS.md`` anew.

What was found last of each benchmark is kept in ``results/``, and the page is made of all that is there; a quick run
keeps nothing. A goal that is missed is printed as missed, with what holds it back. The command fails where an answer of
ours is wrong, or where ours cannot be measured.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path

from benchmarks.harness import machine, report
from benchmarks.harness.job import Found

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results"
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
    faults = False
    for name in names or known:
        begin = time.perf_counter()
        found = Found(about, importlib.import_module(f"benchmarks.{name}").measure(quick))
        print("\n".join(report.printed(name, found)), flush=True)
        print(f"{name} took {time.perf_counter() - begin:.0f} s", file=sys.stderr)
        faults = faults or any(job.faults for job in found.jobs)
        if not quick:
            found.keep(RESULTS / f"{name}.json")
            kept = {path.stem: Found.kept(path) for path in sorted(RESULTS.glob("*.json"))}
            (FOLDER / "RESULTS.md").write_text(report.page(kept), "utf-8")
    return int(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
