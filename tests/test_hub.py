"""A reference means a spec, a directory or a repository, in that order; the network is used only when asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import models
from tests.cli.hub import serving
from tests.tools.command import refused
from tests.tools.command import variorum as run
from variorum import hub
from variorum.errors import NotFound, UsageError
from variorum.hub import locate

MASKED = ("the [MASK] will", "--top-k", "1", "--format", "json")


def test_a_repository_is_fetched_when_asked_and_then_read_from_the_cache(tmp_path: Path) -> None:
    directory = models.bert(tmp_path / "bert")
    files = {path.name: path.read_bytes() for path in directory.iterdir()}
    right = json.loads(run("fill-mask", str(directory), *MASKED).stdout)
    with serving(files) as (endpoint, asked):
        env = {
            "HF_HOME": str(tmp_path / "home"),
            "HF_ENDPOINT": endpoint,
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
        }
        line = refused("fill-mask", "org/tiny", *MASKED[:1], code=3, env=env)
        assert "org/tiny: not in the cache at revision main; run `variorum download org/tiny`" in line
        assert asked == []
        first = run("fill-mask", "org/tiny", *MASKED, "--download", env=env)
        assert first.returncode == 0, first.stderr
        assert json.loads(first.stdout) == right
        before = len(asked)
        assert json.loads(run("fill-mask", "org/tiny@main", *MASKED, env=env).stdout) == right
        assert len(asked) == before


def test_a_directory_is_itself_unless_a_spec_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "org/mine", "gpt2"):
        (tmp_path / name).mkdir(parents=True)
        assert locate(f"./{name}") == Path(name)
    assert locate("mine") == Path("mine")
    assert locate("org/mine") == Path("org/mine")
    monkeypatch.setattr(hub, "cached", lambda repository, revision: Path("cache", repository, revision))
    assert locate("gpt2") == Path("cache/openai-community/gpt2/main")


@pytest.mark.parametrize("reference", ["./gone", "/gone", "../gone", "~/gone", "gone/", "a/b/c"])
def test_what_can_only_be_a_path_is_not_looked_for_on_the_hub(reference: str) -> None:
    with pytest.raises(NotFound, match="no such directory"):
        locate(reference)


def test_a_name_near_a_known_one_is_pointed_out() -> None:
    with pytest.raises(NotFound, match="did you mean modernbert"):
        locate("modernbrt")


def test_what_no_repository_can_be_called_is_refused() -> None:
    with pytest.raises(UsageError, match="not the name of a repository"):
        locate("org/na me")
