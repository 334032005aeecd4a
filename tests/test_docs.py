"""What the README and the documentation show is what happens, and their picture shows the family as it is.

A block below ``<!-- run -->`` is run. A Python block with prompts is checked like a doctest, one without is executed;
the blocks of one page share their names. In a console block each ``$`` line is a command, what follows is its output on
both streams, ``...`` stands for anything, and ``[exit 3]`` for an exit code other than 0.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from variorum.family import models

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^<!-- run -->\n```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "<!-- run -->"


def blocks(page: Path, kind: str) -> list[str]:
    return [text for language, text in BLOCK.findall(page.read_text("utf-8")) if language == kind]


def transcript(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output it shows."""
    pairs: list[tuple[str, str]] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            pairs.append((line[2:].strip(), ""))
        else:
            command, output = pairs.pop()
            pairs.append((command, output + line))
    return pairs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_mark_is_above_a_block(page: Path) -> None:
    assert page.read_text("utf-8").count(MARK) == len(BLOCK.findall(page.read_text("utf-8")))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_on_the_page_does_what_it_shows(page: Path) -> None:
    names: dict[str, object] = {}
    for text in blocks(page, "python"):
        if ">>>" not in text:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(text, page.name, "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
        runner, said = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS), io.StringIO()
        runner.run(test, out=said.write, clear_globs=False)
        assert runner.failures == 0, said.getvalue()
        names.update(test.globs)


COMMANDS = [(page.name, *pair) for page in PAGES for text in blocks(page, "console") for pair in transcript(text)]


@pytest.mark.parametrize(("page", "command", "shown"), COMMANDS, ids=[f"{c[0]}: {c[1]}" for c in COMMANDS])
def test_a_command_on_the_page_prints_what_it_shows(page: str, command: str, shown: str, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # Under `make test` a make of the page would say that it is an inner one.
    outside = {name: value for name, value in os.environ.items() if name not in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")}
    done = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**outside, "PATH": path, "HF_HOME": str(tmp_path)},
        check=False,
    )
    output, _, code = shown.partition("[exit ")
    assert done.returncode == int(code.strip("]\n") or 0), done.stdout
    assert doctest.OutputChecker().check_output(output, done.stdout, doctest.ELLIPSIS), done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_picture_is_drawn_from_the_specs() -> None:
    drawn = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    assert drawn is not None
    assert drawn.loader is not None
    module = importlib.util.module_from_spec(drawn)
    drawn.loader.exec_module(module)
    picture = module.picture()
    assert (ROOT / "docs" / "family.svg").read_text("utf-8") == picture, "run `make docs`"
    assert set(re.findall(r'<g id="([^"]+)">', picture)) == set(models())
    for name, model in models().items():
        shown = re.search(rf'<g id="{re.escape(name)}">.*?class="year"[^>]*>(\d*)<', picture)
        assert shown is not None
        assert shown[1] in model.cite, f"{name}: {model.cite}"
