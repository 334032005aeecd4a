"""`make mutation`: every field of every tiny model's spec flipped, and who notices.

python -m tests.mutation                 # every tiny model
python -m tests.mutation bert t5         # those whose name begins so
python -m tests.mutation --share 5       # every fifth mutant
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch

from tests.mutation.observers import ORDER
from tests.mutation.run import Tally, fields, judge, unwatched
from tests.parity.tiny import TINY


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", help="names, or how they begin (all)")
    parser.add_argument("--share", type=int, default=1, help="try every so many-th mutant")
    options = parser.parse_args()
    chosen = [tiny for tiny in TINY if not options.models or any(tiny.name.startswith(m) for m in options.models)]
    if not chosen:
        parser.error(f"no tiny model is called {' or '.join(options.models)}")

    torch.set_num_threads(1)
    began, total = time.monotonic(), Tally("all")
    print(f"{'model':22} {'tried':>6} " + " ".join(f"{name:>9}" for name in ORDER) + f" {'survive':>8} {'dormant':>8}")
    for tiny in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            tally = judge(tiny, Path(scratch), options.share)
        print(_line(tally), flush=True)
        total.merge(tally)
    print(_line(total))
    faults = list(total.survivors)
    if len(chosen) == len(TINY) and options.share == 1:
        faults += [f"{name}: its observer has caught nothing" for name in unwatched(total.fields)]
    _print_dormant(total.asleep)
    faults += _print_fields()
    for fault in faults:
        print(fault, file=sys.stderr)
    caught = total.seen.total()
    print(f"{caught} of {total.tried} mutants caught, {time.monotonic() - began:.0f} s")
    return min(len(faults), 1)


def _line(tally: Tally) -> str:
    counts = " ".join(f"{tally.seen[name]:>9}" for name in ORDER)
    survive, asleep = len(tally.survivors), tally.asleep.total()
    return f"{tally.name:22} {tally.tried:>6} {counts} {survive:>8} {asleep:>8}"


def _print_dormant(asleep: Counter[str]) -> None:
    print("\nDormant: fields that nothing reads where they stand")
    for reason, count in asleep.most_common():
        print(f"{count:>6}  {reason}")


def _print_fields() -> list[str]:
    """Fields by declared observer, and those without one; too many of them are a fault."""
    declared = fields()
    counts = Counter(observer for observer, _ in declared.values())
    print(f"\n{len(declared)} fields: " + ", ".join(f"{counts[name]} {name}" for name in (*ORDER, "none")))
    reasons: dict[str, list[str]] = {}
    for name, (observer, why) in declared.items():
        if observer == "none":
            reasons.setdefault(why, []).append(name)
    share = counts["none"] / len(declared)
    print(f"None ({share:.1%}):")
    for why, names in reasons.items():
        print(f"  {', '.join(names)}: {why}")
    return [f"{share:.1%} of the fields have no observer, more than 10 %"] if share > 0.1 else []


if __name__ == "__main__":
    raise SystemExit(main())
