"""The recipe of ``docs/recipe.py``: one rare mail among twenty, no mail on two sides, and all seven steps."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.tools.weights import need
from variorum.tasks.table import read

SCRIPT = Path(__file__).parents[1] / "docs" / "recipe.py"


@pytest.fixture(scope="module")
def recipe() -> ModuleType:
    found = importlib.util.spec_from_file_location("recipe", SCRIPT)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def mails(count: int) -> list[dict[str, str]]:
    return [
        {"text": " ".join(f"word{i}x{j}" for j in range(12)), "label": "ham" if i % 2 else "spam"} for i in range(count)
    ]


def test_one_mail_of_twenty_one_is_rare_and_always_the_same_ones(recipe: ModuleType) -> None:
    found = recipe.rare(mails(1000), None)
    assert [sum(row["label"] == name for row in found) for name in ("ham", "spam")] == [500, 25]
    assert recipe.rare(mails(1000), None) == found
    assert len(recipe.rare(mails(1000), 420)) == 420


def test_parts_hold_every_mail_once_each_class_by_its_share_and_no_mail_on_two_sides(recipe: ModuleType) -> None:
    given = mails(200)
    given += [{**row, "text": row["text"] + " again"} for row in given[:40]]
    parts = recipe.parted(given)
    assert sorted(row["text"] for rows in parts.values() for row in rows) == sorted(row["text"] for row in given)
    for row in given[:40]:
        assert (
            sum(
                {row["text"], row["text"] + " again"} & {one["text"] for one in rows} != set()
                for rows in parts.values()
            )
            == 1
        )
    for name, share in recipe.PARTS.items():
        for label in ("ham", "spam"):
            assert sum(row["label"] == label for row in parts[name]) == pytest.approx(120 * share, abs=2)


@pytest.mark.nightly
@pytest.mark.real_weights
@pytest.mark.mechanism("X")
def test_one_command_goes_all_seven_steps(tmp_path: Path) -> None:
    for name in ("spam", "smollm2"):
        need(name)
    words = [sys.executable, str(SCRIPT), str(tmp_path / "all"), "--rows", "420", "--model", str(need("bert-tiny"))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    titles = [line.split()[1].rstrip(",") for line in done.stdout.splitlines() if line.startswith("== ")]
    assert titles == ["1", "2", "5", "4", "6", "7", "7"]
    assert len(read(tmp_path / "all" / "answers.csv").rows) == len(read(tmp_path / "all" / "later.csv").rows)
    assert (tmp_path / "all" / "report" / "report.html").is_file()
