"""``python -m benchmarks [NAME ...]``: measure, print a table, and write ``benchmarks/RESULTS.md``.

A goal that is missed is printed as missed; the command fails only if a measurement cannot be made.
"""

from __future__ import annotations

import datetime
import importlib
import json
import os
import platform
import sys
from pathlib import Path

from variorum.cli.output import plain, table

FOLDER = Path(__file__).parent
COLUMNS = ("what", "ours", "unit", "goal", "met", "beside")


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    known = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
    if unknown := sorted(set(names) - set(known)):
        print(f"no benchmark is called {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    page = ["# Measured", "", f"{today} on {machine}. Written by `make bench`.", ""]
    for name in names or known:
        module = importlib.import_module(f"benchmarks.{name}")
        rows = [row._asdict() for row in module.measure()]
        print(f"{name}: {(module.__doc__ or '').partition('.')[0]}")
        print("\n".join(table(rows, COLUMNS)))
        print(json.dumps({"benchmark": name, "date": today, "machine": machine, "rows": plain(rows)}))
        page += [f"## {name}", "", "```", *table(rows, COLUMNS), "```", ""]
    if not names:
        (FOLDER / "RESULTS.md").write_text("\n".join(page), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
