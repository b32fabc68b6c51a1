# Every target sets up what it needs: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo browser test fuzz fast test-textbook test-gpu check bench exhibits tables results results-gpu weights clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

demo: setup  ## the main job, end to end, on this machine
	$(BIN)/regard demo

browser:  ## Chromium, in which the tests open the page; where it cannot be had they say so and are skipped
	@command -v chromium > /dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium > /dev/null; } || \
	  echo "no Chromium here: the tests of the page will be skipped"

test: setup browser  ## every test
	$(BIN)/python -m pytest -n auto --dist loadfile

fast: setup  ## the tests that take seconds
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

test-textbook: setup  ## the quick tests without anything of fast/, which is never needed for a correct result
	REGARD_FAST=0 $(BIN)/python -m pytest -n auto --dist loadfile -m "not slow" --ignore tests/fast

fuzz: setup  ## thousands of spoilt files of every format and requests to the server; prints tables
	$(BIN)/python tests/fuzz/run.py --each 1000
	$(BIN)/python tests/fuzz/fuzz_http.py --each 500

SHUFFLE ?= $(shell date +%s)
test-gpu:  ## what a GPU changes, in one process and a random order; where PYTHON is one that has torch for CUDA
	PYTHONPATH=src $(PYTHON) -m pytest -m gpu -p no:cacheprovider --verbosity=0 --shuffle $(SHUFFLE) tests

check: setup  ## style, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## side by side with the peers; a table, then one line of JSON
	$(BIN)/python benchmarks/attention.py

exhibits: setup  ## run every idea of the lectures and write docs/exhibits
	$(BIN)/regard exhibits --all --out docs/exhibits

tables: setup  ## write the README's tables from results/*.json, and docs/settings.md from the settings
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/settings.py

LIMIT ?= 100000
results: setup  ## measure again what is stale on this machine, command by command; LIMIT=60 starts nothing that ends later
	$(BIN)/python benchmarks/measure.py --device cpu --limit $(LIMIT)

results-gpu:  ## the same with a GPU, in pieces of under ten minutes; where PYTHON is one that has torch for CUDA
	PYTHONPATH=src $(PYTHON) benchmarks/measure.py --device cuda --limit $(LIMIT)

weights: setup  ## real models to try things with, in weights/
	$(BIN)/python benchmarks/weights.py

clean:
	rm -rf $(VENV) build dist demo
