"""What is read at once means what the full parser makes of it; what is not plain is left to that."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.cli.verbs import said
from variorum.cli import VERBS, build, full
from variorum.cli.page import of_verb
from variorum.cli.reading import Verbs, fields, read

PLAIN = [
    "tree",
    "tree bert",
    "tree --relieves kv-memory gemma",
    "show bert --kind state --batch 4 --context=128",
    "diff bert gpt2 --context 512",
    "size llama-3-8b gpt2 --formulas bert",
    "size --fit 24GiB",
    "size bert --set encoder.depth=2 --set width=3",
    "show --set=encoder.depth=2 bert",
    "shapes bert --length 3 --target 2",
    "fill-mask bert text --top-k 3 --download",
    "fill-mask bert text --dtype float64 --device cpu --revision v1",
    "embed bert --text a b --out x.npy --batch-size 2",
    "embed bert --text=a --text b",
    "generate gpt2 text --max-new-tokens 007",
    "attention bert --text a --from b --to c --layer 0 --maps encoder",
    "study quickstart --out here --time-limit 2.5 --dry-run",
    "download bert --to x",
    "doctor",
    "completion bash --install",
]
NOT_PLAIN = [
    "show",
    "show bert gpt2",
    "show bert --kind all",
    "show bert --batch four",
    "show bert --batch 1e1",
    "show bert --batch -1",
    "show bert --batch",
    "show bert --batch 1 --batch 2",
    "show --model bert",
    "show bert --nothing",
    "size --formulas=yes",
    "size --formulas --formulas",
    "attention bert",
    "study quickstart --time-limit soon",
]


def verb(line: str) -> tuple[Any, list[str]]:
    name, *words = line.split()
    command = importlib.import_module(f"variorum.cli.{name.replace('-', '_')}").command
    if isinstance(command, Verbs):
        inner, *words = words
        return command.verbs[inner], words
    return command, words


@pytest.mark.parametrize("line", PLAIN)
def test_a_plain_line_means_what_the_full_parser_makes_of_it(line: str) -> None:
    command, words = verb(line)
    given = read(command, words)
    assert given is not None
    _, bound, *_ = build().parse_args(line.split(), print_error=False, exit_on_error=False)
    assert (tuple(given[0]), given[1]) == _whole(bound)


def _whole(bound: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What the full parser bound, with the arguments left out at their defaults."""
    bound = bound.signature.bind(*bound.args, **bound.kwargs)
    by_name = dict(bound.kwargs)
    bound.apply_defaults()
    return bound.args, by_name


@pytest.mark.parametrize("line", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_full_parser(line: str) -> None:
    command, words = verb(line)
    assert read(command, words) is None


def test_every_option_of_every_verb_is_known_and_told() -> None:
    for one in VERBS:
        command = importlib.import_module(f"variorum.cli.{one.module}").command
        for name, function in command.verbs.items() if isinstance(command, Verbs) else [(one.name, command)]:
            known = fields(function)
            assert known is not None, f"{name} is not read at once"
            page = of_verb(name, function) or ""
            for field in known:
                line = next(line for line in page.splitlines() if line.startswith(f"  {field.flag}"))
                after = page.splitlines()[page.splitlines().index(line) + 1]
                assert len(line.split("  ")) > 2 or after.startswith("      "), f"{name} does not tell of {field.flag}"


def test_the_full_parser_knows_every_verb_and_no_other() -> None:
    for one in VERBS:
        assert callable(getattr(full, one.module))
    assert not hasattr(full, "nothing")


def test_a_help_page_has_arguments_options_choices_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    page = said(capsys, "show", "--help")
    assert page.startswith("Usage: variorum show MODEL [OPTIONS]\n\nEverything a model is")
    assert "--kind {config,learned,state,rules}" in page
    assert "[default: published]" in " ".join(page.split())
    assert page == said(capsys, "show", "bert", "-h")
    assert "--text STR [OPTIONS]" in said(capsys, "attention", "--help")
    assert "quickstart" in said(capsys, "study", "--help")
    assert "a verdict needs 3. [default: 3]" in " ".join(said(capsys, "study", "quickstart", "--help").split())


def test_a_page_keeps_to_the_width_of_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (60, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert max(map(len, said(capsys, "embed", "--help").splitlines())) <= min(columns, 100)
