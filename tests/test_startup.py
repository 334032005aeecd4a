"""Help pages and what is answered from specs alone start at once: no tensor library and no parser is read for them."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys

import pytest

from variorum.cli import VERBS

HEAVY = {
    "torch", "pydantic", "numpy", "transformers", "scipy", "sklearn", "pyarrow", "huggingface_hub", "tokenizers",
    "cyclopts", "rich",
}  # fmt: skip
FROM_SPECS = [["tree"], ["diff", "bert", "modernbert"], ["size", "llama-3-8b", "--context", "8192", "--batch", "4"]]
HELP = [["--help"], *([verb.name, "--help"] for verb in VERBS)]
# The figure is of a bare interpreter in the same run, so that a slow machine moves both.
TIMES_BARE = 20
# A bare run takes about one tick of the clock that counts it. So many together are as long as one of ours, and stand
# beside it, where the machine is as busy.
BARE_RUNS = 15
PAIRS = 7


def spelled(words: list[str]) -> str:
    return " ".join(words)


@pytest.mark.parametrize("words", FROM_SPECS + HELP, ids=spelled)
def test_no_heavy_library_is_imported(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "variorum", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "variorum" in imported
    assert imported & HEAVY == set()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment whose second start finds every module compiled, as an installation has them."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode"))}


@pytest.mark.parametrize("words", [*FROM_SPECS, ["--help"], ["size", "--help"], ["study", "--help"]], ids=spelled)
def test_it_starts_within_a_small_multiple_of_a_bare_interpreter(words: list[str], compiled: dict[str, str]) -> None:
    ours, bare = ["-m", "variorum", *words], ["-c", "pass"]
    for line in (ours, bare):
        seconds(line, compiled)
    ratios = [BARE_RUNS * seconds(ours, compiled) / seconds(bare, compiled, BARE_RUNS) for _ in range(PAIRS)]
    assert statistics.median(ratios) < TIMES_BARE, f"{statistics.median(ratios):.1f} times a bare interpreter"


def seconds(words: list[str], env: dict[str, str], runs: int = 1) -> float:
    """Processor time: what else the machine does slows a long run more than a short one, this it leaves."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(runs):
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
