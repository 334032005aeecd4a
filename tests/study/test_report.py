"""The report and the result: self-contained, escaped, 'at this budget' first, and true to the judgements."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html.parser
import itertools
import json
import re
from pathlib import Path

import pytest

from tests.study import fakes
from variorum.page import charts
from variorum.study import drawn, report, words
from variorum.study.analysis import Truth, analyse
from variorum.study.cells import CellStore
from variorum.study.design import Reading, said
from variorum.study.judging import Classes
from variorum.study.mistakes import overlap
from variorum.study.result import as_json
from variorum.study.session import Declared, Finding
from variorum.study.session import Page as Words

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>alert(1)</script>",
    "</title></svg><iframe src=javascript:alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "' onmouseover='alert(1)",
    "<svg/onload=alert(1)>",
    "&lt;b&gt; and <b>bold</b>",
)


@pytest.fixture
def finding(tmp_path: Path) -> Finding:
    return _finding(tmp_path)


def _finding(out: Path, spoil: str = "") -> Finding:
    made = fakes.study()
    if spoil:
        arms = (
            *made.arms[:-1],
            dataclasses.replace(
                made.arms[-1],
                title=spoil,
                note=spoil,
                apparatus=(Reading(place=spoil, before=spoil, after=spoil, why=spoil),),
            ),
        )
        claims = tuple(dataclasses.replace(claim, name=f"{claim.name} {spoil}") for claim in made.claims)
        made = dataclasses.replace(
            made, arms=arms, claims=claims, title=spoil, question=spoil, budget=spoil, items=spoil
        )
    todo = fakes.cells(made)
    results = {
        (cell.arm, cell.seed): fakes.cell_work(report=lambda done: None, **cell.work)  # type: ignore[arg-type]
        for cell in todo
    }
    labelled = dataclasses.replace(
        made,
        name="labels",
        claims=made.claims[:1],
        metric=dataclasses.replace(
            made.metric, name="macro-F1", unit="points", lower_is_better=False, by_item=False, scale=100
        ),
    )
    predicted = {
        key: dataclasses.replace(r, items=tuple(float((i + int(key[0][-1]) * (i > 8) + 1) % 2) for i in range(12)))
        for key, r in results.items()
    }
    truth = Truth(
        labels=[i % 2 for i in range(12)], groups=[i // 2 for i in range(12)],
        judge=Classes((spoil or "tweet", "movie")),
    )  # fmt: skip
    texts = {labelled.name: [spoil or f"text {i}" for i in range(12)]}
    words_of = Words(title="A study", lead="The budget is tiny.", colophon="Made up.")
    declared = Declared(
        out=out,
        studies=(made, labelled),
        cells=todo,
        page=words_of,
        steps=6,
        truths={labelled.name: truth},
        texts=texts,
    )  # fmt: skip
    return Finding(
        outcomes=(analyse(made, results, None), analyse(labelled, predicted, truth)),
        plan=fakes.plan(made, todo, out, CellStore(out / "cells")),
        declared=declared,
        failures=((spoil or "fake/arm1 seed 9", spoil or "ended by SIGKILL"),),
    )


class Page(html.parser.HTMLParser):
    """Tags, attributes and visible text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_first_sentence_says_at_this_budget(finding: Finding):
    page = report.render(finding, "variorum study quickstart")
    opening = re.search(r'<p class="opening">(.*?)</p>', page, re.DOTALL)
    assert opening is not None
    assert opening[1].startswith("At this budget")


def test_every_verdict_line_says_at_this_budget(finding: Finding):
    page = report.render(finding, "variorum study quickstart")
    verdicts = re.findall(r'<li><span class="mark \w+">(.*?)</span>', page)
    assert len(verdicts) == 3
    assert all(line.endswith("at this budget") for line in verdicts)
    for outcome in finding.outcomes:
        for judgement in outcome.judgements:
            assert any(judgement.verdict in line and "at this budget" in line for line in words.table(outcome))
    assert all(
        claim["sentence"].startswith("at this budget")
        for study in as_json(finding, "x")["studies"]
        for claim in study["claims"]
    )


def test_the_page_loads_nothing_and_runs_nothing(finding: Finding):
    text = report.render(finding, "variorum study quickstart")
    page = Page(text)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    for _, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on") or name in ("src", "href", "style")}
    assert "url(" not in text
    assert "@import" not in text


def test_the_policy_allows_exactly_the_pages_own_style_sheet(finding: Finding):
    text = report.render(finding, "x")
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    (policy,) = [a["content"] for _, a in Page(text).tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_text_from_outside_stays_text(tmp_path: Path, payload: str):
    tame, spoiled = (
        report.render(_finding(tmp_path, "plain words"), "x"),
        report.render(_finding(tmp_path, payload), payload),
    )
    before, after = Page(tame), Page(spoiled)
    assert {tag for tag, _ in after.tags} <= {tag for tag, _ in before.tags}
    assert {name for _, a in after.tags for name in a} <= {name for _, a in before.tags for name in a}
    assert payload in "".join(after.words)


def test_the_drawn_interval_is_the_judged_one(finding: Finding):
    outcome = finding.outcomes[0]
    drawing = str(drawn.forest(outcome))
    for judgement in outcome.judgements:
        assert f"<title>{judgement.gain:+.3f}</title>" in drawing
    assert drawing.count("<svg") == 2  # one for wide pages, one for narrow ones


def test_page_and_result_are_written_whole(finding: Finding, tmp_path: Path):
    page, result = report.write(finding, tmp_path / "out", "variorum study quickstart")
    assert page.read_text().startswith("<!doctype html>")
    told = json.loads(result.read_text())
    assert [study["name"] for study in told["studies"]] == ["fake", "labels"]
    claim = told["studies"][0]["claims"][0]
    assert claim["verdict"] == finding.outcomes[0].judgements[0].verdict
    assert claim["low"] <= claim["gain"] <= claim["high"]
    assert len(told["studies"][0]["cells"]) == 9


def test_labels_in_a_drawing_do_not_cover_each_other():
    placed = charts.apart([50.0, 51.0, 52.0, 120.0], 14, (0, 200))
    ordered = sorted(placed)
    assert all(b - a >= 13.9 for a, b in itertools.pairwise(ordered))
    assert placed[3] == 120.0
    assert charts.apart([199.0, 200.0], 14, (0, 200))[1] == pytest.approx(200.0)


def test_ticks_are_round_and_inside():
    assert charts.ticks(0.0, 60.0, 7) == [0, 10, 20, 30, 40, 50, 60]
    assert charts.ticks(-0.43, 0.31, 6) == pytest.approx([-0.4, -0.2, 0.0, 0.2])


def test_a_figure_has_a_true_minus_and_its_unit(finding: Finding):
    metric = finding.outcomes[0].study.metric
    assert metric.shown(-0.1234, sign=True) == "−0.123"
    assert metric.shown(0.5, sign=True) == "+0.500"


def test_spec_values_are_said_as_a_reader_would():
    from variorum.spec.norms import LayerNorm, RMSNorm
    from variorum.spec.positions import Rotary

    assert said(Rotary()) == "Rotary"
    assert said(RMSNorm(eps=1e-6)) == "RMSNorm(eps 1e-06)"
    assert said(LayerNorm(eps=1e-5, bias=False)) == "LayerNorm(eps 1e-05, bias no)"
    assert said(None) == "–"
    assert said(None, "architecture.init.std") == "1/√fan-in"


def test_the_opening_counts_what_is_decided(finding: Finding):
    sentence = words.opening(finding.outcomes)
    decided = [j for o in finding.outcomes for j in o.judgements if j.verdict in words.DECIDED]
    total = sum(len(o.judgements) for o in finding.outcomes)
    assert f"{words.number(len(decided)) if decided else 'none'} of" in sentence
    assert words.number(total) in sentence


def test_the_plan_stands_beside_what_happened(finding: Finding):
    text = report.render(dataclasses.replace(finding, seconds=sum(finding.plan.band) / 2, memory=2 * 10**8), "x")
    assert "inside the band" in text and "191 MiB" in text
    late = report.render(dataclasses.replace(finding, seconds=3000.0, memory=2 * 10**8), "x")
    assert "50:00, outside the band" in late


def test_errors_are_told_arm_by_arm_and_as_examples(finding: Finding):
    shared = overlap(finding.outcomes[1])
    assert shared is not None and shared.items == 12
    words_of = "".join(Page(report.render(finding, "x")).words)
    assert "of the errors of" in words_of and "also by the first" in words_of
    assert "text 0" in words_of and "Missed by" in words_of
    told = as_json(finding, "x")["studies"][1]["errors"]
    assert told["missed"] == dict(shared.missed)


def test_the_page_fits_a_phone(finding: Finding):
    text = report.render(finding, "x")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style is not None and not re.search(r"[^-]width:\s*\d{3,}px", style[1])
    assert text.count("<table") == text.count('<div class="scroll"><table')
