# One command per job. Every target that needs the environment makes it first, and skips that when it is up to date.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.installed-core
DEV    := $(VENV)/.installed-dev
DOCS   := $(VENV)/.installed-docs
BENCH  := $(VENV)/.installed-bench
PINS   := pyproject.toml constraints.txt
# torch stands on the command line at its exact version: a range would let pip choose a build of several gigabytes.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt $(shell grep '^torch==' constraints.txt)

# What a study imports is compiled once, at the end of the installation, where its processes would each do it; and kept,
# though the environment may forbid that.
IMPORTED := torch._dynamo, sklearn.linear_model, sklearn.feature_extraction.text, variorum.study.jobs, variorum.study.run
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test nightly lint docs bench models parity mutation coverage cost fetch recipe

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("variorum needs Python 3.11 or later; set PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)

$(CORE): $(PINS) | $(BIN)/python
	@echo "installing variorum into $(VENV) ..." >&2
	@$(PIP) -e .
	@$(BIN)/python -c 'import $(IMPORTED)'
	@touch $@

$(DEV): $(PINS) | $(BIN)/python
	@echo "installing variorum and its test tools into $(VENV) ..." >&2
	@$(PIP) -e '.[dev]'
	@touch $(CORE) $@

$(DOCS): $(PINS) | $(BIN)/python
	@$(PIP) -e '.[docs]'
	@touch $(CORE) $@

$(BENCH): $(PINS) | $(BIN)/python
	@$(PIP) -e '.[bench]'
	@$(PIP) -e '.[bench,bench-llama]' || echo "llama.cpp cannot be built here; the table will say that it is missing" >&2
	@touch $(CORE) $@

install: $(CORE) ## variorum and what it needs, into .venv

demo: ## install, run the quickstart study, say where its report is
	@begin=$$(date +%s); $(MAKE) --no-print-directory install; installed=$$(date +%s); \
	$(BIN)/variorum study quickstart; code=$$?; studied=$$(date +%s); \
	echo; echo "install  $$((installed - begin)) s"; echo "study    $$((studied - installed)) s"; \
	report=$$(ls -t study-*/report.html 2>/dev/null | head -n 1); \
	if [ $$code -eq 0 ]; then echo "report   $(CURDIR)/$$report"; fi; exit $$code

test: $(DEV) fetch ## every test but the nightly ones
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not nightly" $(ARGS)

nightly: $(DEV) fetch ## every test, the long ones too
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

lint: $(DEV) ## style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

docs: $(DOCS) ## the documentation and its picture, into docs/_build/html
	@$(BIN)/python docs/picture.py >/dev/null
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(BENCH) fetch ## speed and memory against the peers, into benchmarks/RESULTS.md; some 15 minutes
	@$(BIN)/python -m benchmarks $(ARGS)

models: $(CORE) ## models trained on the novels that are shipped, with their curves, into docs/trained; an hour
	@$(BIN)/python docs/trained.py $(ARGS)

parity: $(DEV) ## worst difference to the oracle, per model
	@$(BIN)/python -m tests.parity $(ARGS)

mutation: $(DEV) ## every spec field flipped: which test notices
	@$(BIN)/python -m tests.mutation $(ARGS)

coverage: $(DEV) ## every mechanism with its tests and the command that reaches it
	@$(BIN)/python -m tests.tools.coverage $(ARGS)

cost: $(DEV) ## lines that one more model takes
	@$(BIN)/python -m tests.tools.cost $(ARGS)

recipe: $(DEV) fetch ## a classification project in seven steps, on real mails
	@$(BIN)/python docs/recipe.py $(ARGS)

fetch: $(DEV) ## the published weights and data that the tests use, into .cache/weights
	@$(BIN)/python -m tests.tools.fetch
